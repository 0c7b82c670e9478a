#include "native/device/source_volume.h"

#include <linux/fs.h>
#include <sys/file.h>
#include <unistd.h>

#include <utility>

#include "native/device/loop_info.h"
#include "native/device/mounted_device.h"

namespace blockdelta {

Result<SourceVolume> SourceVolume::Open(const NewSnapshotFile& member) {
  if (member.freeze_path.has_value() && !member.loop_path.has_value()) {
    return Status::Errno(EINVAL, "takeSnapshots", *member.freeze_path,
                         "freezePath requires the loopPath of the volume");
  }
  Result<UniqueFd> file = OpenPath(member.source_path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  RETURN_IF_ERROR(file);
  Result<struct stat> state = StatFd(file->get(), member.source_path);
  RETURN_IF_ERROR(state);
  SourceVolume source;
  source.file_ = std::move(*file);
  source.path_ = member.source_path;
  source.size_bytes_ = static_cast<uint64_t>(state->st_size);
  source.freeze_path_ = member.freeze_path;
  if (!member.loop_path.has_value()) return source;
  RETURN_IF_ERROR(source.OpenLoopOf(member, *state));
  return source;
}

Status SourceVolume::OpenLoopOf(const NewSnapshotFile& member, const struct stat& file) {
  Result<UniqueFd> loop = OpenPath(*member.loop_path, O_RDONLY | O_NOFOLLOW);
  RETURN_IF_ERROR(loop);
  Result<struct loop_info64> info = LoopStatus(loop->get(), *member.loop_path);
  RETURN_IF_ERROR(info);
  if (!(BackingOf(*info) == FileIdentity{file.st_dev, file.st_ino})) {
    return Status::Errno(ESTALE, "LOOP_GET_STATUS64", *member.loop_path,
                         "its backing file is not " + path_);
  }
  if (RetryInterrupted([&] { return flock(loop->get(), LOCK_SH | LOCK_NB); }) == -1) {
    if (errno != EWOULDBLOCK) return Status::Errno(errno, "flock", path_);
    return Status::Errno(EBUSY, "flock", path_,
                         "another process holds a lock on " + *member.loop_path);
  }
  Result<struct stat> state = StatFd(loop->get(), *member.loop_path);
  RETURN_IF_ERROR(state);
  loop_ = std::move(*loop);
  loop_path_ = *member.loop_path;
  device_ = state->st_rdev;
  return Status();
}

Result<UniqueFd> SourceVolume::OpenMount() const {
  Result<UniqueFd> mount = OpenPath(*freeze_path_, O_RDONLY | O_DIRECTORY);
  if (!mount.ok()) return mount;
  RETURN_IF_ERROR(CheckMountedFrom(mount->get(), *freeze_path_, device_, loop_path_, "FIFREEZE"));
  return mount;
}

Result<Freeze> SourceVolume::BeginFreeze(Guardian* guardian) const {
  Result<UniqueFd> mount = OpenMount();
  RETURN_IF_ERROR(mount);
  return Freeze::Begin(guardian, std::move(*mount), *freeze_path_);
}

Status SourceVolume::SyncFileSystem() const {
  Result<UniqueFd> mount = OpenMount();
  RETURN_IF_ERROR(mount);
  // Since Linux 5.8, syncfs reports write-back errors; FIFREEZE does not, because failed pages are
  // clean by then.
  if (RetryInterrupted([&] { return syncfs(mount->get()); }) == -1) {
    return Status::Errno(errno, "syncfs", *freeze_path_);
  }
  return Status();
}

Status SourceVolume::Flush() const {
  // The loop device comes first: data in its page cache is not in the file yet.
  if (loop_.valid()) {
    RETURN_IF_ERROR(SyncFd(loop_.get(), loop_path_));
    RETURN_IF_ERROR(Ioctl(loop_.get(), BLKFLSBUF, 0ul, "BLKFLSBUF", loop_path_));
  }
  return SyncFd(file_.get(), path_);
}

}  // namespace blockdelta
