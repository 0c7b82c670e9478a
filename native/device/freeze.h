// A file system that stands still (FIFREEZE) for as long as this lives, in the hands of a guardian.
#ifndef BLOCKDELTA_NATIVE_DEVICE_FREEZE_H_
#define BLOCKDELTA_NATIVE_DEVICE_FREEZE_H_

#include <cstdint>
#include <string>

#include "native/base/posix.h"
#include "native/device/guardian.h"

namespace blockdelta {

class Freeze {
 public:
  // `mount_fd` is open on the mount point; `guardian` outlives this. EBUSY if it is frozen already:
  // then somebody else will thaw it, at a time of theirs.
  static Result<Freeze> Begin(Guardian* guardian, UniqueFd mount_fd, std::string path);
  Freeze(Freeze&&) = default;
  Freeze& operator=(Freeze&&) = delete;
  // Thaws if that was not done.
  ~Freeze();

  Status Thaw();
  // How long it stood frozen; known after Thaw().
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

// FITHAW of a mount point, which no death of this process interrupts. False: it was not frozen.
Result<bool> ThawPath(const std::string& path);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_FREEZE_H_
