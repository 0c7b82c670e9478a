#include "native/device/punch.h"

#include <fcntl.h>
#include <linux/falloc.h>

#include <cerrno>

#include "native/base/posix.h"

namespace blockdelta {

Status PunchDevice(const std::string& path, const std::vector<ByteRange>& ranges) {
  Result<UniqueFd> fd = OpenPath(path, O_RDWR | O_NONBLOCK);
  RETURN_IF_ERROR(fd);
  Result<struct stat> state = StatFd(fd->get(), path);
  RETURN_IF_ERROR(state);
  // A file would be punched as well, and keep no trace of a wrong path.
  if (!S_ISBLK(state->st_mode)) return Status::Errno(ENOTBLK, "fallocate", path);
  for (const auto& [offset, size] : ranges) {
    if (size > INT64_MAX - offset) return Status::Errno(EFBIG, "fallocate", path);
    const int done = RetryInterrupted([&, offset = offset, size = size] {
      return fallocate(fd->get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                       static_cast<off_t>(offset), static_cast<off_t>(size));
    });
    if (done == -1) return Status::Errno(errno, "fallocate", path);
  }
  return Status();
}

}  // namespace blockdelta
