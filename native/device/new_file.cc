// NewFile of files.h: the temporary name and what becomes of it.
#include <cstdio>
#include <utility>

#include "native/device/files.h"

namespace blockdelta {
namespace {

constexpr mode_t kMode = 0600;

Status CheckAbsent(const std::string& path) {
  Result<struct stat> state = StatPath(path);
  if (state.ok()) return Status::Errno(EEXIST, "lstat", path);
  if (state.status().IsErrno(ENOENT)) return Status();
  return state.TakeStatus();
}

}  // namespace

Result<NewFile> NewFile::Create(NewFileNames names) {
  Status status = CheckAbsent(names.final);
  if (!status.ok()) return status;
  Result<bool> removed = RemoveFile(names.temporary);
  if (!removed.ok()) return removed.TakeStatus();
  Result<UniqueFd> fd = OpenPath(names.temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, kMode);
  if (!fd.ok()) return fd.TakeStatus();
  return NewFile(std::move(names), std::move(*fd));
}

NewFile::~NewFile() {
  // fd_ is invalid in a file that was moved from.
  if (!published_ && fd_.valid()) unlink(names_.temporary.c_str());
}

Status NewFile::Publish() {
  Status status = SyncFd(fd(), temporary());
  if (!status.ok()) return status;
  const int renamed =
      renameat2(AT_FDCWD, temporary().c_str(), AT_FDCWD, final().c_str(), RENAME_NOREPLACE);
  if (renamed == -1) return Status::Errno(errno, "renameat2", final());
  published_ = true;
  return Status();
}

}  // namespace blockdelta
