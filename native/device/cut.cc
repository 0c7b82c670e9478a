#include "native/device/cut.h"

#include <linux/fs.h>
#include <time.h>

#include <utility>

#include "native/device/freeze.h"
#include "native/device/loop_info.h"

namespace blockdelta {
namespace {

constexpr mode_t kFrozenMode = 0400;

// The volume: its file and, if it is attached, its loop device.
struct Source {
  UniqueFd file;
  std::string path;
  UniqueFd loop;  // Not valid: not attached.
  std::string loop_path;
};

Result<Source> OpenSource(const CutRequest& request) {
  Result<UniqueFd> file = OpenPath(request.source_path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!file.ok()) return file.TakeStatus();
  Source source = {std::move(*file), request.source_path, UniqueFd(), std::string()};
  if (!request.loop_path.has_value()) return source;
  Result<struct stat> state = StatFd(source.file.get(), source.path);
  if (!state.ok()) return state.TakeStatus();
  Result<UniqueFd> loop = OpenPath(*request.loop_path, O_RDONLY | O_NOFOLLOW);
  if (!loop.ok()) return loop.TakeStatus();
  Result<struct loop_info64> info = LoopStatus(loop->get(), *request.loop_path);
  if (!info.ok()) return info.TakeStatus();
  if (!(BackingOf(*info) == FileIdentity{state->st_dev, state->st_ino})) {
    return Status::Errno(ESTALE, "LOOP_GET_STATUS64", *request.loop_path,
                         "it is not attached to " + source.path);
  }
  source.loop = std::move(*loop);
  source.loop_path = *request.loop_path;
  return source;
}

// Freezes the file system on the loop device and no other: were it unmounted by now, the path would
// lead to the file system below, maybe the one that the clone has to be written to.
Result<Freeze> FreezeSource(const Source& source, const std::string& path) {
  Result<UniqueFd> mount = OpenPath(path, O_RDONLY | O_DIRECTORY);
  if (!mount.ok()) return mount.TakeStatus();
  Result<struct stat> mounted = StatFd(mount->get(), path);
  if (!mounted.ok()) return mounted.TakeStatus();
  Result<struct stat> device = StatFd(source.loop.get(), source.loop_path);
  if (!device.ok()) return device.TakeStatus();
  if (mounted->st_dev != device->st_rdev) {
    return Status::Errno(ESTALE, "FIFREEZE", path,
                         "it is not the file system on " + source.loop_path);
  }
  return Freeze::Begin(std::move(*mount), path);
}

// Carries everything written so far into the file. The loop device comes first: what its page cache
// holds is not in the file yet.
Status Flush(const Source& source) {
  if (source.loop.valid()) {
    Status status = SyncFd(source.loop.get(), source.loop_path);
    if (!status.ok()) return status;
    status = Ioctl(source.loop.get(), BLKFLSBUF, 0ul, "BLKFLSBUF", source.loop_path);
    if (!status.ok()) return status;
  }
  return SyncFd(source.file.get(), source.path);
}

Result<CutOutcome> Clone(const Source& source, const std::optional<std::string>& freeze_path,
                         const NewFile& file) {
  std::optional<Freeze> freeze;
  if (freeze_path.has_value()) {
    Result<Freeze> begun = FreezeSource(source, *freeze_path);
    if (!begun.ok()) return begun.TakeStatus();
    freeze.emplace(std::move(*begun));
  }
  Status status = Flush(source);
  if (!status.ok()) return status;
  CutOutcome outcome = {ClockNs(CLOCK_REALTIME), 0};
  status = CloneInto(source.file.get(), file.fd(), file.temporary());
  if (!status.ok()) return status;
  if (freeze.has_value()) {
    status = freeze->Thaw();
    if (!status.ok()) return status;
    outcome.frozen_ns = freeze->frozen_ns();
  }
  return outcome;
}

Status MakeFrozen(const NewFile& file) {
  Status status = SetImmutableFd(file.fd(), true, file.final());
  if (status.ok()) status = SyncFd(file.fd(), file.final());
  if (status.ok()) status = SyncDirectoryOf(file.final());
  return status;
}

// Only a file with its final name is made immutable: the flag also forbids renaming it.
Status PublishFrozen(NewFile* file) {
  if (fchmod(file->fd(), kFrozenMode) == -1) {
    return Status::Errno(errno, "fchmod", file->temporary());
  }
  Status status = file->Publish();
  if (!status.ok()) return status;
  status = MakeFrozen(*file);
  // A snapshot that is not frozen must not stay behind under a snapshot's name.
  if (!status.ok()) static_cast<void>(RemoveFile(file->final()));
  return status;
}

}  // namespace

Result<CutOutcome> CutSnapshot(const CutRequest& request) {
  if (request.freeze_path.has_value() && !request.loop_path.has_value()) {
    return Status::Errno(EINVAL, "cutSnapshot", *request.freeze_path,
                         "a file system can only be frozen on the loop device of the volume");
  }
  Result<Source> source = OpenSource(request);
  if (!source.ok()) return source.TakeStatus();
  Result<NewFile> file = NewFile::Create(request.names);
  if (!file.ok()) return file.TakeStatus();
  Result<CutOutcome> outcome = Clone(*source, request.freeze_path, *file);
  if (!outcome.ok()) return outcome;
  Status status = PublishFrozen(&*file);
  if (!status.ok()) return status;
  return outcome;
}

}  // namespace blockdelta
