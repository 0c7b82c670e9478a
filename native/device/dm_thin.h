// Thin pools and thin devices: their status, messages to a pool, snapshots at one point in time.
//
// Knows what the kernel does with them, not which of them belong to whom.
#ifndef BLOCKDELTA_NATIVE_DEVICE_DM_THIN_H_
#define BLOCKDELTA_NATIVE_DEVICE_DM_THIN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "native/device/dm_control.h"
#include "native/device/dm_status.h"

namespace blockdelta {

// Failure code: the pool is in a mode in which it does not do, or keep, what was asked for.
inline constexpr char kThinPoolMode[] = "THIN_POOL_MODE";

// Nothing: no such device. EINVAL: it is no thin-pool. `commit`: of the pool's metadata, first.
Result<std::optional<ThinPoolStatus>> PoolStatus(const DmControl& control, const std::string& name,
                                                 bool commit);
// Nothing: no such device. EINVAL: it is no thin device.
Result<std::optional<ThinStatus>> DeviceStatus(const DmControl& control, const std::string& name);

// Sends one after the other, and looks at the pool's status after each: the kernel drops the result
// of the commit that ends a message. THIN_POOL_MODE if the pool does not keep messages any more:
// that message may or may not have happened. An errno: it did nothing, those before it are done.
Result<ThinPoolStatus> SendMessages(const DmControl& control, const std::string& pool,
                                    const std::vector<std::string>& messages);

struct ThinCutMember {
  std::optional<std::string> device_name;  // Nothing: the origin is not active.
  uint32_t origin_id = 0;
  uint32_t snapshot_id = 0;
};

struct ThinCutOutcome {
  uint64_t cut_time_ns = 0;   // CLOCK_REALTIME, when all were held still.
  uint64_t suspended_ns = 0;  // Of the device that was longest; 0: none was active.
  ThinPoolStatus status;
};

// Holds all active origins still, with their file systems frozen, makes the snapshots, and resumes
// all in every case. A failure has deleted the snapshots that were made, unless the pool refuses.
// EBUSY if an origin is suspended already, or its file system frozen by somebody else (kernels
// before 6.8; later ones count freezes, so it is cut, and left frozen); ESTALE if a device is not
// the thin device of that id in this pool; EINVAL for an empty list or ids given twice.
// THIN_POOL_MODE unless the pool is rw. The kernel counts create_snap in the pool's time, of which
// only 24 bits reach the mappings, and goes on wrongly behind that: the caller refuses to cut at
// time 16,777,215 (the superblock's).
Result<ThinCutOutcome> CutThin(const DmControl& control, const std::string& pool,
                               const std::vector<ThinCutMember>& members);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_DM_THIN_H_
