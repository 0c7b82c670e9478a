#include "native/scan/snapshot_file.h"

#include <linux/fs.h>

#include <utility>

#include "native/base/seal.h"

namespace blockdelta {
namespace {

bool SameTime(const struct timespec& left, const struct timespec& right) {
  return left.tv_sec == right.tv_sec && left.tv_nsec == right.tv_nsec;
}

}  // namespace

Result<SnapshotFile> SnapshotFile::Open(SnapshotIdentity identity) {
  // O_NONBLOCK: if the path is a pipe, do not wait for its writer.
  Result<UniqueFd> fd = OpenPath(identity.path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (fd.status().IsErrno(ENOENT)) {
    return Status::Scan(kScanReplaced, identity.path, "",
                        " does not exist; make a full backup of another snapshot");
  }
  RETURN_IF_ERROR(fd);
  Result<struct stat> state = StatFd(fd->get(), identity.path);
  RETURN_IF_ERROR(state);
  if (!S_ISREG(state->st_mode) || state->st_dev != identity.device ||
      state->st_ino != identity.inode ||
      static_cast<uint64_t>(state->st_size) != identity.size_bytes) {
    return Status::Scan(kScanReplaced, identity.path, "",
                        " is another file: its device, inode or size differs");
  }
  Result<bool> unchanged = MatchesSeal(fd->get(), *state, identity.path);
  RETURN_IF_ERROR(unchanged);
  if (!*unchanged) {
    return Status::Scan(kScanMutable, identity.path, "",
                        " was changed after it was taken; make a full backup of another snapshot");
  }
  return SnapshotFile(std::move(identity), std::move(*fd), *state);
}

Status SnapshotFile::CheckFrozen() const {
  struct fsxattr attributes = {};
  RETURN_IF_ERROR(Ioctl(fd(), FS_IOC_FSGETXATTR, &attributes, "FS_IOC_FSGETXATTR", path()));
  if ((attributes.fsx_xflags & FS_XFLAG_IMMUTABLE) == 0) {
    return Status::Scan(kScanMutable, path(), "",
                        " is not immutable: its extents may have moved or changed");
  }
  if ((attributes.fsx_xflags & FS_XFLAG_REALTIME) != 0) {
    return Status::Scan(kScanUnsupported, path(), "", " is on an XFS realtime device");
  }
  return Status();
}

Status SnapshotFile::CheckUnchanged() const {
  Result<struct stat> now = StatFd(fd(), path());
  RETURN_IF_ERROR(now);
  if (now->st_size != opened_.st_size || !SameTime(now->st_ctim, opened_.st_ctim)) {
    return Status::Scan(kScanMutable, path(), "", " was changed during the scan");
  }
  return Status();
}

}  // namespace blockdelta
