#include "native/device/loop_change.h"

#include <linux/fs.h>
#include <unistd.h>

#include <utility>

#include "native/device/direct_io.h"
#include "native/device/file_lock.h"

namespace blockdelta {
namespace {

constexpr uint64_t kSectorBytes = 512;
constexpr char kLoopControl[] = "/dev/loop-control";

std::string QueuePath(uint32_t number, const char* name) {
  return "/sys/block/loop" + std::to_string(number) + "/queue/" + name;
}

// Whether a sysfs attribute exists and is 0.
bool IsZero(const std::string& path) {
  Result<UniqueFd> fd = OpenPath(path, O_RDONLY);
  if (!fd.ok()) return false;
  char text[2] = {};
  const ssize_t length = RetryInterrupted([&] { return read(fd->get(), text, sizeof text); });
  return length == 2 && text[0] == '0' && text[1] == '\n';
}

// `fd` keeps the device attached to its file: a concurrent detach waits for the close.
Result<LoopDevice> Resize(int fd, const std::string& path, uint64_t file_bytes) {
  RETURN_IF_ERROR(Ioctl(fd, LOOP_SET_CAPACITY, 0ul, "LOOP_SET_CAPACITY", path));
  Result<LoopDevice> device = DescribeLoop(fd);
  if (!device.ok()) return device;
  if (device->size_bytes != file_bytes - file_bytes % kSectorBytes) {
    return Status::Errno(EIO, "LOOP_SET_CAPACITY", path,
                         "the device does not have the size of its file");
  }
  return device;
}

}  // namespace

Result<std::optional<LoopDevice>> ResizeLoop(const std::string& backing_path) {
  Result<FileLock> lock = FileLock::Acquire(backing_path);
  if (lock.status().IsErrno(ENOENT) || lock.status().IsErrno(ENOTDIR)) {
    return std::optional<LoopDevice>();
  }
  RETURN_IF_ERROR(lock);
  Result<struct stat> state = StatFd(lock->fd(), backing_path);
  RETURN_IF_ERROR(state);
  const FileIdentity backing = {state->st_dev, state->st_ino};
  Result<std::optional<LoopDevice>> found = FindLoop({backing, backing_path});
  if (!found.ok() || !found->has_value()) return found;
  const std::string& path = (*found)->path;
  Result<UniqueFd> fd = OpenLoop((*found)->number, O_RDONLY);
  if (fd.status().IsErrno(ENXIO)) return std::optional<LoopDevice>();
  RETURN_IF_ERROR(fd);
  // A process that ignores the lock may have detached the device, and its number may be reused.
  Result<struct loop_info64> info = LoopStatus(fd->get(), path);
  if (info.status().IsErrno(ENXIO)) return std::optional<LoopDevice>();
  RETURN_IF_ERROR(info);
  if (!(BackingOf(*info) == backing)) return std::optional<LoopDevice>();
  Result<LoopDevice> device = Resize(fd->get(), path, static_cast<uint64_t>(state->st_size));
  RETURN_IF_ERROR(device);
  return std::optional<LoopDevice>(std::move(*device));
}

Status SetDirectIo(int fd, bool direct_io, const std::string& device_path) {
  const unsigned long wanted = direct_io ? 1 : 0;
  RETURN_IF_ERROR(Ioctl(fd, LOOP_SET_DIRECT_IO, wanted, "LOOP_SET_DIRECT_IO", device_path));
  Result<struct loop_info64> info = LoopStatus(fd, device_path);
  RETURN_IF_ERROR(info);
  if (((info->lo_flags & LO_FLAGS_DIRECT_IO) != 0) != direct_io) {
    return Status::Errno(EIO, "LOOP_SET_DIRECT_IO", device_path,
                         "the device does not have the requested mode");
  }
  return Status();
}

Status SetLoopDirectIo(const std::string& device_path, bool direct_io) {
  Result<UniqueFd> fd = OpenPath(device_path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  RETURN_IF_ERROR(fd);
  if (!direct_io) return SetDirectIo(fd->get(), false, device_path);
  Result<LoopDevice> device = DescribeLoop(fd->get());
  RETURN_IF_ERROR(device);
  if (device->attached_read_only) return SetDirectIo(fd->get(), true, device_path);
  Result<UniqueFd> backing = OpenBacking(*device);
  RETURN_IF_ERROR(backing);
  Result<bool> safe = MayWriteDirectly(backing->get(), device->sector_bytes, device_path);
  RETURN_IF_ERROR(safe);
  if (*safe) return SetDirectIo(fd->get(), true, device_path);
  return Status::Errno(EOPNOTSUPP, "LOOP_SET_DIRECT_IO", device_path,
                       "direct writes are unsafe: its file is on btrfs and not NOCOW, or its "
                       "sectors are smaller than the file system's blocks, and those are smaller "
                       "than a page");
}

Status SetDeviceReadOnly(const std::string& device_path, bool read_only) {
  Result<UniqueFd> fd = OpenPath(device_path, O_RDONLY | O_NONBLOCK);
  RETURN_IF_ERROR(fd);
  const int value = read_only ? 1 : 0;
  return Ioctl(fd->get(), BLKROSET, &value, "BLKROSET", device_path);
}

Status RefuseLoopDiscards(uint32_t number) {
  const std::string path = QueuePath(number, "discard_max_bytes");
  if (IsZero(path)) return Status();
  Result<UniqueFd> fd = OpenPath(path, O_WRONLY);
  RETURN_IF_ERROR(fd);
  if (RetryInterrupted([&] { return write(fd->get(), "0", 1); }) == 1) return Status();
  return Status::Errno(errno, "write", path);
}

bool RecreateLoop(uint32_t number) {
  const bool refuses = IsZero(QueuePath(number, "discard_max_bytes")) &&
                       !IsZero(QueuePath(number, "discard_max_hw_bytes"));
  if (!refuses || IsAttached(number)) return false;
  Result<UniqueFd> control = OpenPath(kLoopControl, O_RDWR);
  // EBUSY means that another process has attached the device meanwhile.
  return control.ok() &&
         ioctl(control->get(), LOOP_CTL_REMOVE, static_cast<unsigned long>(number)) != -1;
}

}  // namespace blockdelta
