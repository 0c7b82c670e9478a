#include "native/device/loop_info.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/major.h>
#include <signal.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace blockdelta {
namespace {

static_assert(sizeof(struct loop_info64) == 232, "ABI of LOOP_GET_STATUS64");

// Target of the /sys/block entries of loop devices.
constexpr char kSysLoops[] = "/sys/devices/virtual/block";
constexpr char kLoopPrefix[] = "loop";
constexpr mode_t kNodeMode = S_IFBLK | 0660;
constexpr int kMaxTries = 200;

std::string BackingFileOf(uint32_t number) {
  return std::string(kSysLoops) + "/" + kLoopPrefix + std::to_string(number) + "/loop/backing_file";
}

// The number in "loop17"; nothing for other names, such as partitions.
std::optional<uint32_t> LoopNumber(const char* name) {
  const size_t prefix = std::strlen(kLoopPrefix);
  if (std::strncmp(name, kLoopPrefix, prefix) != 0 || name[prefix] == '\0') return std::nullopt;
  char* end = nullptr;
  const unsigned long number = std::strtoul(name + prefix, &end, 10);
  if (*end != '\0' || number > UINT32_MAX) return std::nullopt;
  return static_cast<uint32_t>(number);
}

// Failures of a device that another process is attaching or detaching.
bool IsInTransit(const Status& status) {
  return status.IsErrno(ENXIO) || status.IsErrno(ENOENT) || status.IsErrno(ENODEV) ||
         status.IsErrno(EBUSY);
}

// Nothing if the device has another file than `wanted`.
Result<std::optional<LoopDevice>> DescribeNumber(uint32_t number, const FileIdentity* wanted) {
  Result<UniqueFd> fd = OpenLoop(number, O_RDONLY);
  RETURN_IF_ERROR(fd);
  if (wanted != nullptr) {
    Result<struct loop_info64> info = LoopStatus(fd->get(), LoopPath(number));
    RETURN_IF_ERROR(info);
    if (!(BackingOf(*info) == *wanted)) return std::optional<LoopDevice>();
  }
  Result<LoopDevice> device = DescribeLoop(fd->get());
  RETURN_IF_ERROR(device);
  if (wanted != nullptr && !(device->backing == *wanted)) return std::optional<LoopDevice>();
  return std::optional<LoopDevice>(std::move(*device));
}

// Nothing if the device is not attached, or not to `wanted`. A device in transition is retried
// until it is attached or not: skipping it would attach its file twice.
Result<std::optional<LoopDevice>> DescribeIfAttached(uint32_t number,
                                                     const FileIdentity* wanted = nullptr) {
  Status status;
  for (int tries = 0; tries < kMaxTries; tries++) {
    Result<std::optional<LoopDevice>> device = DescribeNumber(number, wanted);
    if (device.ok()) return device;
    status = device.TakeStatus();
    if (!IsInTransit(status)) return status;
    if (!IsAttached(number)) return std::optional<LoopDevice>();
    SleepMs(1);
  }
  // The process that cleared the device still has it open, so it can only become detached.
  if (status.IsErrno(ENXIO)) return std::optional<LoopDevice>();
  return status;
}

// Failures of a device whose backing file is on a dead file system.
bool IsOutOfReach(const Status& status) { return status.IsErrno(EIO) || status.IsErrno(ESTALE); }

// The path as sysfs reports it; `path` may lead through a descriptor of a directory. Returned
// unchanged if there is no such file.
std::string RealName(const std::string& path) {
  Result<UniqueFd> fd = OpenPath(path, O_PATH | O_NOFOLLOW);
  if (!fd.ok()) return path;
  const std::string link = "/proc/self/fd/" + std::to_string(fd->get());
  char text[PATH_MAX];
  const ssize_t length = readlink(link.c_str(), text, sizeof text);
  return length > 0 ? std::string(text, static_cast<size_t>(length)) : path;
}

// Whether the path in sysfs leads to that file.
bool IsNamedAs(uint32_t number, const FileIdentity& backing) {
  const std::optional<std::string> path = NamedFile(number);
  struct stat state = {};
  return path.has_value() && stat(path->c_str(), &state) == 0 &&
         FileIdentity{state.st_dev, state.st_ino} == backing;
}

// Whether the kernel proves that nobody else has the regular file open: it is then attached to no
// loop device, because a loop device keeps its file open. The kernel grants a write lease only if
// there is no other open file description (fcntl(2)), and needs no look at any device for that.
// False proves nothing. The lease ends at once; who opens the file meanwhile waits that long
// (OpenPath does so for O_NONBLOCK).
bool HasNoOtherOpener(int fd) {
  // The signal of a broken lease is SIGIO by default, which would end the process. SIGURG has no
  // effect.
  if (fcntl(fd, F_SETSIG, SIGURG) == -1 || fcntl(fd, F_SETLEASE, F_WRLCK) == -1) return false;
  fcntl(fd, F_SETLEASE, F_UNLCK);
  return true;
}

// Like DescribeIfAttached for one file, but skips a device whose backing file is unreachable,
// unless sysfs names the file: the caller has just reached its file, so a file on a dead file
// system is a different file and must not block the search.
Result<std::optional<LoopDevice>> DescribeCandidate(uint32_t number, const FileIdentity& backing) {
  Result<std::optional<LoopDevice>> device = DescribeIfAttached(number, &backing);
  if (device.ok() || !IsOutOfReach(device.status()) || IsNamedAs(number, backing)) return device;
  return std::optional<LoopDevice>();
}

}  // namespace

std::string LoopPath(uint32_t number) { return "/dev/loop" + std::to_string(number); }

Result<UniqueFd> OpenLoop(uint32_t number, int flags) {
  const std::string path = LoopPath(number);
  const dev_t device = makedev(LOOP_MAJOR, number);
  Result<UniqueFd> fd = OpenPath(path, flags | O_NOFOLLOW);
  if (fd.status().IsErrno(ENOENT)) {
    if (mknod(path.c_str(), kNodeMode, device) == -1 && errno != EEXIST) {
      return Status::Errno(errno, "mknod", path);
    }
    fd = OpenPath(path, flags | O_NOFOLLOW);
  }
  if (!fd.ok()) return fd;
  Result<struct stat> state = StatFd(fd->get(), path);
  RETURN_IF_ERROR(state);
  if (!S_ISBLK(state->st_mode) || state->st_rdev != device) {
    return Status::Errno(ENOTBLK, "open", path,
                         "the node is not loop device " + std::to_string(number));
  }
  return fd;
}

Result<struct loop_info64> LoopStatus(int fd, const std::string& path) {
  struct loop_info64 info = {};
  RETURN_IF_ERROR(Ioctl(fd, LOOP_GET_STATUS64, &info, "LOOP_GET_STATUS64", path));
  return info;
}

FileIdentity BackingOf(const struct loop_info64& info) { return {info.lo_device, info.lo_inode}; }

Result<LoopDevice> DescribeLoop(int fd) {
  Result<struct stat> state = StatFd(fd, "loop device");
  RETURN_IF_ERROR(state);
  const uint32_t number = minor(state->st_rdev);
  const std::string path = LoopPath(number);
  Result<struct loop_info64> info = LoopStatus(fd, path);
  RETURN_IF_ERROR(info);
  uint64_t size_bytes = 0;
  RETURN_IF_ERROR(Ioctl(fd, BLKGETSIZE64, &size_bytes, "BLKGETSIZE64", path));
  int read_only = 0;
  RETURN_IF_ERROR(Ioctl(fd, BLKROGET, &read_only, "BLKROGET", path));
  int sector_bytes = 0;
  RETURN_IF_ERROR(Ioctl(fd, BLKSSZGET, &sector_bytes, "BLKSSZGET", path));
  LoopDevice device = {};
  device.number = number;
  device.path = path;
  device.backing = BackingOf(*info);
  device.attached_read_only = (info->lo_flags & LO_FLAGS_READ_ONLY) != 0;
  device.read_only = read_only != 0 || device.attached_read_only;
  device.direct_io = (info->lo_flags & LO_FLAGS_DIRECT_IO) != 0;
  device.sector_bytes = static_cast<uint32_t>(sector_bytes);
  device.size_bytes = size_bytes;
  return device;
}

Result<UniqueFd> OpenBacking(const LoopDevice& device) {
  const std::optional<std::string> name = NamedFile(device.number);
  if (!name.has_value()) return Status::Errno(ENOENT, "open", BackingFileOf(device.number));
  Result<UniqueFd> fd = OpenPath(*name, O_PATH | O_NOFOLLOW);
  if (!fd.ok()) return fd;
  Result<struct stat> state = StatFd(fd->get(), *name);
  RETURN_IF_ERROR(state);
  if (!(FileIdentity{state->st_dev, state->st_ino} == device.backing)) {
    return Status::Errno(ESTALE, "open", *name, "it is not the backing file of " + device.path);
  }
  return fd;
}

namespace {

// Without sysfs no device is visible, which does not mean that there are none.
bool IsSysfsMounted() {
  struct statfs state = {};
  return statfs("/sys", &state) == 0 && state.f_type == SYSFS_MAGIC;
}

// Numbers of all loop devices, attached or not, ascending.
Result<std::vector<uint32_t>> LoopNumbers() {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(kSysLoops), closedir);
  std::vector<uint32_t> numbers;
  if (directory == nullptr) {
    const int error = errno;
    // The kernel creates the directory with the first device.
    if (error == ENOENT && IsSysfsMounted()) return numbers;
    return Status::Errno(error, "opendir", kSysLoops);
  }
  while (const struct dirent* entry = readdir(directory.get())) {
    const std::optional<uint32_t> number = LoopNumber(entry->d_name);
    if (number.has_value()) numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

}  // namespace

Result<std::vector<uint32_t>> AttachedLoops() {
  Result<std::vector<uint32_t>> numbers = LoopNumbers();
  if (!numbers.ok()) return numbers;
  const auto is_free = [](uint32_t number) { return !IsAttached(number); };
  numbers->erase(std::remove_if(numbers->begin(), numbers->end(), is_free), numbers->end());
  return numbers;
}

std::optional<std::string> NamedFile(uint32_t number) {
  Result<UniqueFd> fd = OpenPath(BackingFileOf(number), O_RDONLY);
  if (!fd.ok()) return std::nullopt;
  char text[PATH_MAX + 1];
  const ssize_t length = RetryInterrupted([&] { return read(fd->get(), text, sizeof text); });
  if (length <= 0) return std::string();
  return std::string(text, static_cast<size_t>(length - 1));  // Without the newline.
}

bool IsAttached(uint32_t number) { return access(BackingFileOf(number).c_str(), F_OK) == 0; }

Result<bool> CancelAutoclear(uint32_t number, const FileIdentity& backing) {
  const std::string path = LoopPath(number);
  Result<UniqueFd> fd = OpenLoop(number, O_RDONLY);
  if (fd.status().IsErrno(ENXIO)) return false;
  RETURN_IF_ERROR(fd);
  Result<struct loop_info64> info = LoopStatus(fd->get(), path);
  if (!info.ok() || !(BackingOf(*info) == backing)) return false;
  if ((info->lo_flags & LO_FLAGS_AUTOCLEAR) == 0) return true;
  info->lo_flags &= ~static_cast<uint32_t>(LO_FLAGS_AUTOCLEAR);
  RETURN_IF_ERROR(Ioctl(fd->get(), LOOP_SET_STATUS64, &*info, "LOOP_SET_STATUS64", path));
  return true;
}

Result<std::vector<LoopDevice>> ListLoops() {
  Result<std::vector<uint32_t>> numbers = AttachedLoops();
  RETURN_IF_ERROR(numbers);
  std::vector<LoopDevice> devices;
  for (const uint32_t number : *numbers) {
    Result<std::optional<LoopDevice>> device = DescribeIfAttached(number);
    // One device on a dead file system must not hide all others.
    if (!device.ok() && IsOutOfReach(device.status())) continue;
    RETURN_IF_ERROR(device);
    if (device->has_value()) devices.push_back(std::move(**device));
  }
  return devices;
}

Result<std::optional<LoopDevice>> FindLoop(const BackingFile& file) {
  if (file.hint.has_value()) {
    // A failure to ask about the hint says nothing about the file.
    Result<std::optional<LoopDevice>> device = DescribeCandidate(*file.hint, file.identity);
    if (device.ok() && device->has_value()) return device;
  }
  if (file.fd != -1 && HasNoOtherOpener(file.fd)) return std::optional<LoopDevice>();
  Result<std::vector<uint32_t>> numbers = LoopNumbers();
  RETURN_IF_ERROR(numbers);
  const std::string name = RealName(file.path);
  std::vector<uint32_t> others;
  for (const uint32_t number : *numbers) {
    const std::optional<std::string> named = NamedFile(number);
    if (named == name) {
      Result<std::optional<LoopDevice>> device = DescribeCandidate(number, file.identity);
      if (device.ok() && device->has_value()) return device;
    }
    if (named.has_value()) others.push_back(number);
  }
  // A name proves neither identity nor difference: the file may be below a mount, be reached by
  // another path, or have another name in another mount namespace.
  for (const uint32_t number : others) {
    Result<std::optional<LoopDevice>> device = DescribeCandidate(number, file.identity);
    if (!device.ok() || device->has_value()) return device;
  }
  return std::optional<LoopDevice>();
}

}  // namespace blockdelta
