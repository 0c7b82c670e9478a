#include "native/device/files.h"

#include <fcntl.h>
#include <linux/fs.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <utility>
#include <vector>

#include "native/base/seal.h"
#include "native/device/file_lock.h"

namespace blockdelta {
namespace {

// Unit of st_blocks (stat(2)).
constexpr uint64_t kStatBlockBytes = 512;
constexpr mode_t kNewFileMode = 0600;
constexpr mode_t kFrozenMode = 0400;
constexpr char kProbeBytes[4096] = {1};

Result<int> FlagsOf(int fd, const std::string& path) {
  int flags = 0;
  Status status = Ioctl(fd, FS_IOC_GETFLAGS, &flags, "FS_IOC_GETFLAGS", path);
  // A file system without flags has no flag set.
  if (status.IsErrno(ENOTTY) || status.IsErrno(EOPNOTSUPP)) return 0;
  if (!status.ok()) return status;
  return flags;
}

// Sets or clears the flags of `mask`.
Status ChangeFlags(int fd, int mask, bool set, const std::string& path) {
  Result<int> flags = FlagsOf(fd, path);
  RETURN_IF_ERROR(flags);
  const int wanted = set ? *flags | mask : *flags & ~mask;
  if (wanted == *flags) return Status();
  return Ioctl(fd, FS_IOC_SETFLAGS, &wanted, "FS_IOC_SETFLAGS", path);
}

Result<UniqueFd> OpenFile(const std::string& path) {
  return OpenPath(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
}

bool IsMissing(const Status& status) { return status.IsErrno(ENOENT) || status.IsErrno(ENOTDIR); }

// Grows a file durably to at least that size, after calling `prepare` with its descriptor. Returns
// whether the file was smaller.
Result<bool> Grow(const std::string& path, uint64_t size_bytes,
                  const std::function<Status(int)>& prepare) {
  // The lock excludes an attach, which compares the size of the file with that of its new device.
  Result<FileLock> lock = FileLock::Acquire(path);
  RETURN_IF_ERROR(lock);
  Result<UniqueFd> fd = OpenPath(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
  RETURN_IF_ERROR(fd);
  Result<struct stat> state = StatFd(fd->get(), path);
  RETURN_IF_ERROR(state);
  if (!S_ISREG(state->st_mode)) {
    return Status::Errno(EINVAL, "growFile", path, "not a regular file");
  }
  Status status = prepare(fd->get());
  const bool grows = static_cast<uint64_t>(state->st_size) < size_bytes;
  if (status.ok() && grows) status = TruncateFd(fd->get(), size_bytes, path);
  // Sync in any case: an earlier call may have grown the file and been killed before its fsync.
  if (status.ok()) status = SyncFd(fd->get(), path);
  if (!status.ok()) return status;
  return grows;
}

Status Changed(const std::string& path, const std::string& what) {
  return Status::Reason(kScanMutable, "cloneFile", path, "", " " + what);
}

// Checks that the file is a regular, immutable file that matches its seal.
Status CheckFrozen(int fd, const struct stat& state, const std::string& path) {
  if (!S_ISREG(state.st_mode)) return Changed(path, "is not a regular file");
  Result<int> flags = FlagsOf(fd, path);
  RETURN_IF_ERROR(flags);
  if ((*flags & FS_IMMUTABLE_FL) == 0) return Changed(path, "is not immutable");
  Result<bool> unchanged = MatchesSeal(fd, state, path);
  RETURN_IF_ERROR(unchanged);
  return *unchanged ? Status() : Changed(path, "was changed after it was taken");
}

// Fails if the change time differs from `before`: toggling the immutable flag changes that time.
Status CheckUntouched(int fd, const struct stat& before, const std::string& path) {
  Result<struct stat> now = StatFd(fd, path);
  RETURN_IF_ERROR(now);
  const bool is_same = now->st_ctim.tv_sec == before.st_ctim.tv_sec &&
                       now->st_ctim.tv_nsec == before.st_ctim.tv_nsec;
  return is_same ? Status() : Changed(path, "was changed during the clone");
}

Status CheckAbsent(const std::string& path) {
  Result<struct stat> state = StatPath(path);
  if (state.ok()) return Status::Errno(EEXIST, "lstat", path);
  if (state.status().IsErrno(ENOENT)) return Status();
  return state.TakeStatus();
}

Status RenameNew(const NewFileNames& names) {
  const int renamed =
      renameat2(AT_FDCWD, names.temporary.c_str(), AT_FDCWD, names.final.c_str(), RENAME_NOREPLACE);
  return renamed == -1 ? Status::Errno(errno, "renameat2", names.final) : Status();
}

// Makes a file without a name in the directory, so that a kill leaves nothing.
Result<UniqueFd> MakeProbeFile(const std::string& directory) {
  return OpenPath(directory, O_RDWR | O_TMPFILE, kNewFileMode);
}

}  // namespace

Result<NewFile> NewFile::Create(NewFileNames names) {
  RETURN_IF_ERROR(CheckAbsent(names.final));
  Result<bool> removed = RemoveFile(names.temporary);
  RETURN_IF_ERROR(removed);
  Result<UniqueFd> fd =
      OpenPath(names.temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, kNewFileMode);
  RETURN_IF_ERROR(fd);
  return NewFile(std::move(names), std::move(*fd));
}

NewFile::~NewFile() {
  // fd_ is invalid in a file that was moved from.
  if (!published_ && fd_.valid()) unlink(names_.temporary.c_str());
}

Status NewFile::Publish() {
  RETURN_IF_ERROR(SyncFd(fd(), temporary()));
  RETURN_IF_ERROR(RenameNew(names_));
  published_ = true;
  return Status();
}

Result<bool> IsWrittenInPlace(int fd, const std::string& path) {
  Result<int> flags = FlagsOf(fd, path);
  RETURN_IF_ERROR(flags);
  return (*flags & FS_NOCOW_FL) != 0;
}

Status CreateSparseFile(NewFileNames names, uint64_t size_bytes) {
  Result<NewFile> file = NewFile::Create(std::move(names));
  RETURN_IF_ERROR(file);
  Status status = TruncateFd(file->fd(), size_bytes, file->temporary());
  if (status.ok()) status = file->Publish();
  if (!status.ok()) return status;
  return SyncDirectoryOf(file->final());
}

Status CloneInto(int source_fd, int fd, const std::string& path) {
  Result<int> source_flags = FlagsOf(source_fd, path);
  RETURN_IF_ERROR(source_flags);
  RETURN_IF_ERROR(ChangeFlags(fd, FS_NOCOW_FL, (*source_flags & FS_NOCOW_FL) != 0, path));
  return Ioctl(fd, FICLONE, static_cast<unsigned long>(source_fd), "FICLONE", path);
}

Status CloneFile(const std::string& source_path, NewFileNames names, uint64_t size_bytes) {
  Result<UniqueFd> source = OpenFile(source_path);
  RETURN_IF_ERROR(source);
  Result<struct stat> state = StatFd(source->get(), source_path);
  RETURN_IF_ERROR(state);
  Status status = CheckFrozen(source->get(), *state, source_path);
  if (!status.ok()) return status;
  const auto source_bytes = static_cast<uint64_t>(state->st_size);
  if (source_bytes > size_bytes) {
    return Status::Errno(EINVAL, "cloneFile", source_path,
                         "the requested size is smaller than the source");
  }
  Result<NewFile> file = NewFile::Create(std::move(names));
  RETURN_IF_ERROR(file);
  status = CloneInto(source->get(), file->fd(), file->temporary());
  if (status.ok()) status = CheckUntouched(source->get(), *state, source_path);
  if (status.ok()) status = TruncateFd(file->fd(), size_bytes, file->temporary());
  if (status.ok()) status = file->Publish();
  if (!status.ok()) return status;
  return SyncDirectoryOf(file->final());
}

Result<bool> GrowFile(const std::string& path, uint64_t size_bytes) {
  return Grow(path, size_bytes, [](int) { return Status(); });
}

Status AllocateFile(const std::string& path, uint64_t size_bytes) {
  const auto size = static_cast<off_t>(size_bytes);
  if (size <= 0) return Status::Errno(size == 0 ? EINVAL : EFBIG, "fallocate", path);
  // The size changes last, so that blocks allocated by a failed call are beyond the end of the
  // file.
  const auto allocate = [&](int fd) {
    const int done = RetryInterrupted([&] { return fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, size); });
    if (done != -1) return Status();
    Status status = Status::Errno(errno, "fallocate", path);
    // Releases the blocks that a failed call allocated beyond the end of the file.
    Result<struct stat> state = StatFd(fd, path);
    if (state.ok()) {
      static_cast<void>(TruncateFd(fd, static_cast<uint64_t>(state->st_size), path));
    }
    return status;
  };
  Result<bool> grown = Grow(path, size_bytes, allocate);
  return grown.ok() ? Status() : grown.TakeStatus();
}

Result<bool> ProbeReflink(const std::string& directory) {
  Result<UniqueFd> source = MakeProbeFile(directory);
  // Every file system that can hold a pool without an image has files without a name.
  if (source.status().IsErrno(EOPNOTSUPP)) return false;
  RETURN_IF_ERROR(source);
  Result<UniqueFd> clone = MakeProbeFile(directory);
  RETURN_IF_ERROR(clone);
  const ssize_t written =
      RetryInterrupted([&] { return write(source->get(), kProbeBytes, sizeof kProbeBytes); });
  if (written != static_cast<ssize_t>(sizeof kProbeBytes)) {
    return Status::Errno(written == -1 ? errno : ENOSPC, "write", directory);
  }
  Status status = CloneInto(source->get(), clone->get(), directory);
  if (status.ok()) return true;
  const bool unsupported = status.IsErrno(EOPNOTSUPP) || status.IsErrno(ENOTTY) ||
                           status.IsErrno(EXDEV) || status.IsErrno(EINVAL);
  if (unsupported) return false;
  return status;
}

Status SealFile(int fd, const std::string& path) {
  // The seal comes first: without CAP_DAC_OVERRIDE, a read-only file accepts no attribute.
  RETURN_IF_ERROR(WriteSeal(fd, path));
  if (fchmod(fd, kFrozenMode) == -1) return Status::Errno(errno, "fchmod", path);
  return SyncFd(fd, path);
}

Status FreezeFile(const NewFileNames& names) {
  Result<UniqueFd> fd = OpenFile(names.temporary);
  if (fd.ok()) {
    RETURN_IF_ERROR(SealFile(fd->get(), names.temporary));
    RETURN_IF_ERROR(RenameNew(names));
  } else {
    if (!fd.status().IsErrno(ENOENT)) return fd.TakeStatus();
    fd = OpenFile(names.final);
    RETURN_IF_ERROR(fd);
    Result<struct stat> state = StatFd(fd->get(), names.final);
    RETURN_IF_ERROR(state);
    Result<bool> is_sealed = MatchesSeal(fd->get(), *state, names.final);
    RETURN_IF_ERROR(is_sealed);
    if (!*is_sealed) return Changed(names.final, "was changed after it was sealed");
  }
  // The flag is set after the rename, because it also forbids renaming the file.
  Status status = SetImmutableFd(fd->get(), true, names.final);
  if (status.ok()) status = SyncFd(fd->get(), names.final);
  if (status.ok()) status = SyncDirectoryOf(names.final);
  return status;
}

Status SetImmutableFd(int fd, bool immutable, const std::string& path) {
  return ChangeFlags(fd, FS_IMMUTABLE_FL, immutable, path);
}

Result<bool> RemoveFile(const std::string& path) {
  Result<UniqueFd> fd = OpenFile(path);
  // An earlier call may have been killed between unlink and fsync.
  if (fd.status().IsErrno(ENOENT)) {
    Status status = SyncDirectoryOf(path);
    if (!status.ok() && !IsMissing(status)) return status;
    return false;
  }
  if (IsMissing(fd.status())) return false;
  RETURN_IF_ERROR(fd);
  Status status = SetImmutableFd(fd->get(), false, path);
  if (status.ok()) status = UnlinkPath(path);
  if (status.ok()) status = SyncDirectoryOf(path);
  if (!status.ok()) return status;
  return true;
}

Result<std::optional<FileState>> StateOfFile(const std::string& path) {
  Result<UniqueFd> fd = OpenFile(path);
  if (IsMissing(fd.status())) return std::optional<FileState>();
  RETURN_IF_ERROR(fd);
  Result<struct stat> state = StatFd(fd->get(), path);
  RETURN_IF_ERROR(state);
  Result<int> flags = FlagsOf(fd->get(), path);
  RETURN_IF_ERROR(flags);
  Result<bool> matches_seal = MatchesSeal(fd->get(), *state, path);
  RETURN_IF_ERROR(matches_seal);
  return std::optional<FileState>(
      FileState{state->st_dev, state->st_ino, static_cast<uint64_t>(state->st_size),
                static_cast<uint64_t>(state->st_blocks) * kStatBlockBytes,
                (*flags & FS_IMMUTABLE_FL) != 0, S_ISREG(state->st_mode), *matches_seal});
}

}  // namespace blockdelta
