#include "native/device/loop_attach.h"

#include <linux/fs.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "native/device/direct_io.h"
#include "native/device/file_lock.h"
#include "native/device/loop_change.h"

namespace blockdelta {
namespace {

static_assert(sizeof(struct loop_config) == 304, "ABI of LOOP_CONFIGURE");

constexpr char kLoopControl[] = "/dev/loop-control";
constexpr uint32_t kSectorBytes = 512;
// Each failed try means that another process took the number first.
constexpr int kMaxTries = 100;

Result<struct stat> StatRegular(int fd, const std::string& path) {
  Result<struct stat> state = StatFd(fd, path);
  if (state.ok() && !S_ISREG(state->st_mode)) {
    return Status::Errno(EINVAL, "loopAttach", path, "not a regular file");
  }
  return state;
}

// The device the file is already attached to. A device marked for detaching at its last close (by a
// detach that was killed) is unmarked.
Result<std::optional<LoopDevice>> FindAttached(const BackingFile& file) {
  Result<std::optional<LoopDevice>> found = FindLoop(file);
  if (!found.ok() || !found->has_value()) return found;
  Result<bool> kept = CancelAutoclear((*found)->number, file.identity);
  RETURN_IF_ERROR(kept);
  if (!*kept) return std::optional<LoopDevice>();
  return found;
}

Result<bool> MayAttachDirectly(int backing_fd, bool read_only, uint32_t sector_bytes,
                               const std::string& path) {
  if (read_only) return true;
  return MayWriteDirectly(backing_fd, sector_bytes, path);
}

// How a file is to be attached.
struct Mode {
  bool read_only;
  bool direct_io;
};

// Reuses an attached device. An earlier attach may have left direct I/O on where it is unsafe.
Result<AttachedLoop> Reused(LoopDevice device, const std::string& backing_path, bool read_only,
                            int backing_fd) {
  if (device.attached_read_only == read_only) {
    Result<bool> direct =
        MayAttachDirectly(backing_fd, read_only, device.sector_bytes, backing_path);
    RETURN_IF_ERROR(direct);
    if (device.direct_io && !*direct) {
      RETURN_IF_ERROR(SetLoopDirectIo(device.path, false));
      device.direct_io = false;
    }
    return AttachedLoop{std::move(device), false};
  }
  return Status::Errno(EEXIST, "LOOP_CONFIGURE", backing_path,
                       "it is already attached to " + device.path +
                           (device.attached_read_only ? " read-only" : " read-write"));
}

Status Configure(int loop_fd, int backing_fd, Mode mode, const std::string& label,
                 const std::string& loop_path) {
  struct loop_config config = {};
  config.fd = static_cast<uint32_t>(backing_fd);
  config.block_size = kSectorBytes;
  if (mode.direct_io) config.info.lo_flags |= LO_FLAGS_DIRECT_IO;
  if (mode.read_only) config.info.lo_flags |= LO_FLAGS_READ_ONLY;
  const size_t length = std::min(label.size(), sizeof config.info.lo_file_name - 1);
  std::memcpy(config.info.lo_file_name, label.data(), length);
  Status status = Ioctl(loop_fd, LOOP_CONFIGURE, &config, "LOOP_CONFIGURE", loop_path);
  if (!mode.direct_io || !status.IsErrno(EINVAL)) return status;
  // Older kernels reject the flag where the file system has no direct I/O (tmpfs).
  config.info.lo_flags &= ~static_cast<uint32_t>(LO_FLAGS_DIRECT_IO);
  return Ioctl(loop_fd, LOOP_CONFIGURE, &config, "LOOP_CONFIGURE", loop_path);
}

// Takes a free device. The number from LOOP_CTL_GET_FREE is only a suggestion until LOOP_CONFIGURE
// succeeds.
Result<UniqueFd> TakeFreeLoop(int control_fd, int backing_fd, Mode mode, const std::string& label) {
  Status status = Status::Errno(EBUSY, "LOOP_CTL_GET_FREE", kLoopControl);
  for (int tries = 0; tries < kMaxTries; tries++) {
    const int number = RetryInterrupted([&] { return ioctl(control_fd, LOOP_CTL_GET_FREE); });
    if (number < 0) return Status::Errno(errno, "LOOP_CTL_GET_FREE", kLoopControl);
    if (RecreateLoop(static_cast<uint32_t>(number))) continue;
    Result<UniqueFd> fd =
        OpenLoop(static_cast<uint32_t>(number), mode.read_only ? O_RDONLY : O_RDWR);
    status = fd.ok() ? Configure(fd->get(), backing_fd, mode, label,
                                 LoopPath(static_cast<uint32_t>(number)))
                     : fd.TakeStatus();
    if (status.ok()) return fd;
    const bool taken = status.IsErrno(EBUSY) || status.IsErrno(ENXIO) || status.IsErrno(ENODEV);
    if (!taken) return status;
  }
  return status;
}

// Checks a newly attached device; EIO if its size or mode is not the requested one.
Result<LoopDevice> Verify(int fd, const struct stat& backing, bool read_only) {
  // A number keeps BLKROSET from its previous use.
  const int writable = 0;
  RETURN_IF_ERROR(Ioctl(fd, BLKROSET, &writable, "BLKROSET", "loop device"));
  Result<LoopDevice> device = DescribeLoop(fd);
  if (!device.ok()) return device;
  const auto size_bytes = static_cast<uint64_t>(backing.st_size);
  if (device->read_only != read_only ||
      device->size_bytes != size_bytes - size_bytes % kSectorBytes) {
    return Status::Errno(EIO, "LOOP_CONFIGURE", device->path,
                         "the device does not have the requested size or mode");
  }
  return device;
}

Result<AttachedLoop> AttachNew(int backing_fd, const struct stat& backing, bool read_only,
                               const std::string& label) {
  Result<UniqueFd> control = OpenPath(kLoopControl, O_RDWR);
  RETURN_IF_ERROR(control);
  Result<bool> direct = MayAttachDirectly(backing_fd, read_only, kSectorBytes, label);
  RETURN_IF_ERROR(direct);
  Result<UniqueFd> fd = TakeFreeLoop(control->get(), backing_fd, {read_only, *direct}, label);
  RETURN_IF_ERROR(fd);
  Result<LoopDevice> device = Verify(fd->get(), backing, read_only);
  if (device.ok()) return AttachedLoop{std::move(*device), true};
  // If this fails too, the next attach finds the device.
  static_cast<void>(Ioctl(fd->get(), LOOP_CLR_FD, 0ul, "LOOP_CLR_FD", "loop device"));
  return device.TakeStatus();
}

}  // namespace

Result<AttachedLoop> AttachLoop(const std::string& backing_path, bool read_only,
                                const std::string& label) {
  Result<FileLock> lock = FileLock::Acquire(backing_path);
  RETURN_IF_ERROR(lock);
  Result<struct stat> state = StatRegular(lock->fd(), backing_path);
  RETURN_IF_ERROR(state);
  const FileIdentity identity = {state->st_dev, state->st_ino};
  Result<std::optional<LoopDevice>> found = FindAttached({identity, backing_path, lock->fd()});
  RETURN_IF_ERROR(found);
  if (found->has_value()) return Reused(std::move(**found), backing_path, read_only, lock->fd());
  // Opened after the search, which relies on the lock's descriptor being the only one.
  Result<UniqueFd> backing =
      OpenPath(backing_path, (read_only ? O_RDONLY : O_RDWR) | O_NOFOLLOW | O_NONBLOCK);
  RETURN_IF_ERROR(backing);
  state = StatRegular(backing->get(), backing_path);
  RETURN_IF_ERROR(state);
  if (!(FileIdentity{state->st_dev, state->st_ino} == identity)) {
    return Status::Errno(ESTALE, "loopAttach", backing_path, "another file has taken its place");
  }
  return AttachNew(backing->get(), *state, read_only, label);
}

}  // namespace blockdelta
