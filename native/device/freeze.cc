#include "native/device/freeze.h"

#include <linux/fs.h>
#include <time.h>

#include <utility>

namespace blockdelta {

Result<Freeze> Freeze::Begin(UniqueFd mount_fd, std::string path) {
  const uint64_t begun_ns = ClockNs(CLOCK_MONOTONIC);
  Status status = Ioctl(mount_fd.get(), FIFREEZE, 0ul, "FIFREEZE", path);
  if (status.IsErrno(EPERM)) {
    return Status::Errno(EPERM, "FIFREEZE", path, "it needs CAP_SYS_ADMIN");
  }
  if (!status.ok()) return status;
  return Freeze(std::move(mount_fd), std::move(path), begun_ns);
}

Freeze::~Freeze() {
  // fd_ is invalid after Thaw() and in one that was moved from.
  if (fd_.valid()) static_cast<void>(Thaw());
}

Status Freeze::Thaw() {
  Status status = Ioctl(fd_.get(), FITHAW, 0ul, "FITHAW", path_);
  frozen_ns_ = ClockNs(CLOCK_MONOTONIC) - begun_ns_;
  fd_.Close();
  // Somebody has thawed it before us: it is not what was asked for, but it does not stand still.
  if (status.IsErrno(EINVAL)) {
    return Status::Errno(EINVAL, "FITHAW", path_, "another process thawed it meanwhile");
  }
  return status;
}

Result<bool> ThawPath(const std::string& path) {
  Result<UniqueFd> fd = OpenPath(path, O_RDONLY | O_DIRECTORY);
  if (!fd.ok()) return fd.TakeStatus();
  Status status = Ioctl(fd->get(), FITHAW, 0ul, "FITHAW", path);
  if (status.IsErrno(EINVAL)) return false;
  if (!status.ok()) return status;
  return true;
}

}  // namespace blockdelta
