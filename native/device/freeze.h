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
// is its mount point, or the name of its device.
inline constexpr char kSnapshotThawed[] = "SNAPSHOT_THAWED";
// Failure code: another program has frozen a file system of several, whose device does not count
// its writes, so that nothing proves that it stands still. The path as above.
inline constexpr char kSnapshotUncounted[] = "SNAPSHOT_UNCOUNTED";

struct FreezeOptions {
  // As for Guardian::Start().
  std::optional<std::string> guardian_socket = {};
  // How long a file system stays frozen at most, ms.
  uint64_t limit_ms = 60'000;
  // When nobody waits for the result any more; CLOCK_REALTIME, ms. Nothing: never.
  std::optional<uint64_t> deadline_ms = {};

  // The deadline by CLOCK_MONOTONIC, ns; UINT64_MAX: none.
  uint64_t EndNs() const;
};

class Freeze {
 public:
  // FIFREEZE. `mount_fd` is open on the mount point. EBUSY if the file system is already frozen:
  // another process will thaw it at an unknown time.
  static Result<Freeze> Begin(Guardian* guardian, UniqueFd mount_fd, std::string path,
                              guardian::Order order = guardian::Order::kFreeze);
  // Suspends a device. EBUSY if it is already suspended or (before Linux 6.8, and only for kFreeze)
  // its file system already frozen. `control` outlives the result.
  static Result<Freeze> Suspend(Guardian* guardian, const DmControl& control,
                                const DmDevice& device,
                                guardian::Order order = guardian::Order::kFreeze);
  // For both: `guardian` outlives the result. Other orders than kFreeze: see protocol.h. ESTALE:
  // the guardian was lost, and nothing is frozen. ETIMEDOUT as for Guardian::Hold().
  Freeze(Freeze&&) = default;
  Freeze& operator=(Freeze&&) = delete;
  // Thaws or resumes unless Thaw() was called.
  ~Freeze();

  // Returns how long it was frozen, ns. ESTALE: not throughout, so what was copied meanwhile may be
  // torn. ETIMEDOUT as for Guardian::Release().
  Result<uint64_t> Thaw();

 private:
  Freeze(Guardian* guardian, const DmControl* control, std::string name)
      : guardian_(guardian), control_(control), name_(std::move(name)) {}
  Result<Freeze> Hold(const guardian::Request& request, UniqueFd fd);

  Guardian* guardian_;
  const DmControl* control_;  // Null: a file system.
  std::string name_;
  Guardian::Held held_ = {};
  UniqueFd fd_;  // Invalid: it is not frozen, not any more, or this was moved from.
};

// FITHAW of an open mount point, completed even if this process is killed; `path` identifies it in
// failures. False: it was not frozen.
Result<bool> ThawMount(UniqueFd mount_fd, const std::string& path);
// The same for the mount at a path.
Result<bool> ThawPath(const std::string& path);
// The same for a suspended device.
Result<bool> ResumeDevice(const DmControl& control, const std::string& name);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_FREEZE_H_
