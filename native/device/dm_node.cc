#include "native/device/dm_node.h"

#include <stdio.h>
#include <sys/sysmacros.h>

#include "native/base/posix.h"

namespace blockdelta {
namespace {

constexpr mode_t kNodeMode = S_IFBLK | 0660;

}  // namespace

Result<std::string> EnsureDmNode(dev_t device) {
  const std::string path = "/dev/dm-" + std::to_string(minor(device));
  Result<struct stat> state = StatPath(path);
  if (state.ok() && S_ISBLK(state->st_mode) && state->st_rdev == device) return path;
  if (!state.ok() && !state.status().IsErrno(ENOENT)) return state.TakeStatus();
  // Under a name of its own first: nobody shall meet a path without a node meanwhile.
  const std::string temporary = path + ".new-" + std::to_string(gettid());
  static_cast<void>(UnlinkPath(temporary));
  if (mknod(temporary.c_str(), kNodeMode, device) == -1) {
    return Status::Errno(errno, "mknod", temporary);
  }
  if (rename(temporary.c_str(), path.c_str()) == -1) {
    Status status = Status::Errno(errno, "rename", path);
    static_cast<void>(UnlinkPath(temporary));
    return status;
  }
  return path;
}

}  // namespace blockdelta
