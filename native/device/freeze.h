// A file system that is frozen (FIFREEZE) by a guardian for the lifetime of this object.
#ifndef BLOCKDELTA_NATIVE_DEVICE_FREEZE_H_
#define BLOCKDELTA_NATIVE_DEVICE_FREEZE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "native/base/posix.h"
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
  // `mount_fd` is open on the mount point; `guardian` outlives this. EBUSY if the file system is
  // already frozen: another process will thaw it at an unknown time. ETIMEDOUT as for
  // Guardian::Freeze().
  static Result<Freeze> Begin(Guardian* guardian, UniqueFd mount_fd, std::string path);
  Freeze(Freeze&&) = default;
  Freeze& operator=(Freeze&&) = delete;
  // Thaws unless Thaw() was called.
  ~Freeze();

  // EINVAL: another process has thawed it. ETIMEDOUT as for Guardian::Thaw().
  Status Thaw();
  // How long it was frozen; valid after Thaw().
  uint64_t frozen_ns() const { return frozen_ns_; }

 private:
  Freeze(Guardian* guardian, Guardian::Held held, UniqueFd fd, std::string path)
      : guardian_(guardian), held_(held), fd_(std::move(fd)), path_(std::move(path)) {}

  Guardian* guardian_;
  Guardian::Held held_;
  UniqueFd fd_;
  std::string path_;
  uint64_t frozen_ns_ = 0;
};

// FITHAW of an open mount point, completed even if this process is killed; `path` identifies it in
// failures. False: it was not frozen.
Result<bool> ThawMount(const UniqueFd& mount_fd, const std::string& path);
// The same for the mount at a path.
Result<bool> ThawPath(const std::string& path);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_FREEZE_H_
