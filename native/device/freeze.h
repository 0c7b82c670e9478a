// A file system that is frozen (FIFREEZE) by a guardian for the lifetime of this object.
#ifndef BLOCKDELTA_NATIVE_DEVICE_FREEZE_H_
#define BLOCKDELTA_NATIVE_DEVICE_FREEZE_H_

#include <cstdint>
#include <string>

#include "native/base/posix.h"
#include "native/device/guardian.h"

namespace blockdelta {

class Freeze {
 public:
  // `mount_fd` is open on the mount point; `guardian` outlives this. EBUSY if the file system is
  // already frozen: another process will thaw it at an unknown time.
  static Result<Freeze> Begin(Guardian* guardian, UniqueFd mount_fd, std::string path);
  Freeze(Freeze&&) = default;
  Freeze& operator=(Freeze&&) = delete;
  // Thaws unless Thaw() was called.
  ~Freeze();

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
