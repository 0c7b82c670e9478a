// A file system that a guardian freezes (FIFREEZE), or a device-mapper device that it suspends, for
// the lifetime of an object.
#ifndef BLOCKDELTA_NATIVE_DEVICE_FREEZE_H_
#define BLOCKDELTA_NATIVE_DEVICE_FREEZE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "native/base/posix.h"
#include "native/device/dm_device.h"
#include "native/device/guardian.h"

namespace blockdelta {

// Failure code: another program thawed or froze a file system while its volume was copied. The path
// of the failure is the mount point, or the name of the device.
inline constexpr char kSnapshotThawed[] = "SNAPSHOT_THAWED";
// Failure code: another program has frozen one of several file systems, and the device does not
// count its writes, so nothing proves that the file system stands still. The path is as above.
inline constexpr char kSnapshotUncounted[] = "SNAPSHOT_UNCOUNTED";

struct FreezeOptions {
  // The socket for Guardian::Start().
  std::optional<std::string> guardian_socket = {};
  // Maximum time that a file system stays frozen, ms.
  uint64_t limit_ms = 60'000;
  // Time after which nobody waits for the result; CLOCK_REALTIME, ms. Nothing if there is none.
  std::optional<uint64_t> deadline_ms = {};

  // The deadline by CLOCK_MONOTONIC, ns; UINT64_MAX if there is none.
  uint64_t EndNs() const;
};

class Freeze {
 public:
  // Freezes a file system (FIFREEZE). `mount_fd` is open on the mount point. EBUSY if the file
  // system is already frozen: another process will thaw it at an unknown time.
  static Result<Freeze> Begin(Guardian* guardian, UniqueFd mount_fd, std::string path,
                              guardian::Order order = guardian::Order::kFreeze);
  // Suspends a device. EBUSY if it is already suspended or, before Linux 6.8 and only for kFreeze,
  // if its file system is already frozen. `control` must outlive the result.
  static Result<Freeze> Suspend(Guardian* guardian, const DmControl& control,
                                const DmDevice& device,
                                guardian::Order order = guardian::Order::kFreeze);
  // For both functions: `guardian` must outlive the result, and protocol.h describes the orders.
  // ESTALE if the guardian was lost; nothing is frozen then. ETIMEDOUT as for Guardian::Hold().
  Freeze(Freeze&&) = default;
  Freeze& operator=(Freeze&&) = delete;
  // Thaws or resumes unless Thaw() was called.
  ~Freeze();

  // Returns how long the freeze lasted, ns. ESTALE if it did not last throughout, so that data
  // copied meanwhile may be torn. ETIMEDOUT as for Guardian::Release().
  Result<uint64_t> Thaw();

 private:
  Freeze(Guardian* guardian, const DmControl* control, std::string name)
      : guardian_(guardian), control_(control), name_(std::move(name)) {}
  Result<Freeze> Hold(const guardian::Request& request, UniqueFd fd);

  Guardian* guardian_;
  const DmControl* control_;  // Null for a file system.
  std::string name_;
  Guardian::Held held_ = {};
  UniqueFd fd_;  // Invalid if nothing is frozen (any more), or this was moved from.
};

// Thaws an open mount point (FITHAW); a kill of this process does not interrupt the thaw. `path`
// identifies the mount point in failures. False if it was not frozen.
Result<bool> ThawMount(UniqueFd mount_fd, const std::string& path);
// ThawMount() for the mount at a path.
Result<bool> ThawPath(const std::string& path);
// Resumes a suspended device in the same way. False if it was not suspended.
Result<bool> ResumeDevice(const DmControl& control, const std::string& name);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_FREEZE_H_
