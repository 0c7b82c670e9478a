// Thin pools and thin devices: status, messages to a pool, snapshots at one point in time.
//
// Knows the kernel's behaviour, not the owner of a pool or a device.
#ifndef BLOCKDELTA_NATIVE_DEVICE_DM_THIN_H_
#define BLOCKDELTA_NATIVE_DEVICE_DM_THIN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "native/device/dm_control.h"
#include "native/device/dm_status.h"
#include "native/device/freeze.h"

namespace blockdelta {

// Failure code: the pool is in a mode in which it rejects the operation or may lose its effect.
inline constexpr char kThinPoolMode[] = "THIN_POOL_MODE";

// Nothing if there is no such device; EINVAL if it is not a thin-pool. With `commit`, the kernel
// first commits the pool's metadata.
Result<std::optional<ThinPoolStatus>> PoolStatus(const DmControl& control, const std::string& name,
                                                 bool commit);

// Sends messages one by one and reads the pool's status after each: the kernel drops the result of
// the commit that ends a message. THIN_POOL_MODE if the pool's metadata is not writable afterwards:
// the message may or may not have taken effect. An errno means that the message had no effect;
// earlier messages had.
Result<ThinPoolStatus> SendMessages(const DmControl& control, const std::string& pool,
                                    const std::vector<std::string>& messages);

struct NewThinSnapshot {
  std::optional<std::string> device_name;  // Absent if the origin is not active.
  uint32_t origin_id = 0;
  uint32_t snapshot_id = 0;
};

struct TakenThinSnapshots {
  uint64_t taken_at_ns = 0;   // CLOCK_REALTIME, while all origins were suspended.
  uint64_t suspended_ns = 0;  // The longest suspension; 0 if no origin was active.
  ThinPoolStatus status;
};

// Suspends all active origins, which freezes their file systems, creates the snapshots and in every
// case resumes the origins; guardians suspend and resume (see FreezeOptions). After a failure the
// call deletes the snapshots it created, unless the pool refuses. EBUSY if an origin is already
// suspended. A file system that another program has frozen stays frozen: kernels from 6.8 on count
// freezes; on older kernels only the device is suspended, and the call fails with SNAPSHOT_THAWED
// if the file system was thawed meanwhile. ETIMEDOUT of syncfs or DM_DEV_SUSPEND as for
// TakeSnapshots(). ESTALE if a device is not the thin device of that id in this pool, if the
// guardian was lost while it suspended, or if an origin was not suspended throughout; EINVAL for an
// empty list or duplicate ids; THIN_POOL_MODE unless the pool is rw. The kernel counts every
// create_snap in the pool's time, of which mappings keep only 24 bits, and does not handle the
// overflow: the caller must refuse to take a snapshot when the superblock's time is 16,777,215.
Result<TakenThinSnapshots> TakeThinSnapshots(const DmControl& control, const std::string& pool,
                                             const std::vector<NewThinSnapshot>& members,
                                             const FreezeOptions& freezing);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_DM_THIN_H_
