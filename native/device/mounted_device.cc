#include "native/device/mounted_device.h"

#include <linux/btrfs.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>

namespace blockdelta {
namespace {

static_assert(sizeof(struct btrfs_ioctl_dev_info_args) == 4096, "ABI of BTRFS_IOC_DEV_INFO");

constexpr uint32_t kXfsMagic = 0x58465342;
// btrfs assigns device ids in ascending order and never reuses them; a volume has one device.
constexpr uint64_t kMaxBtrfsDeviceId = 4096;

Status NotOn(const char* call, const std::string& path, const std::string& device_path) {
  return Status::Errno(ESTALE, call, path, "it is not the file system on " + device_path);
}

// Whether the name under which the device was mounted still leads to the device.
bool LeadsTo(const char* name, dev_t device) {
  struct stat state = {};
  return name[0] != '\0' && stat(name, &state) == 0 && S_ISBLK(state.st_mode) &&
         state.st_rdev == device;
}

}  // namespace

Result<FileSystemKind> KindOfFileSystem(int mount_fd, const std::string& path) {
  struct statfs state = {};
  if (RetryInterrupted([&] { return fstatfs(mount_fd, &state); }) == -1) {
    return Status::Errno(errno, "fstatfs", path);
  }
  switch (static_cast<uint32_t>(state.f_type)) {
    case EXT4_SUPER_MAGIC:
      return FileSystemKind::kExt4;
    case kXfsMagic:
      return FileSystemKind::kXfs;
    case BTRFS_SUPER_MAGIC:
      return FileSystemKind::kBtrfs;
    default:
      return FileSystemKind::kOther;
  }
}

Result<BtrfsDevice> FindBtrfsDevice(int mount_fd, const std::string& path, dev_t device,
                                    const std::string& device_path) {
  struct btrfs_ioctl_fs_info_args all = {};
  Status status = Ioctl(mount_fd, BTRFS_IOC_FS_INFO, &all, "BTRFS_IOC_FS_INFO", path);
  if (!status.ok()) return status;
  const uint64_t last_id = std::min<uint64_t>(all.max_id, kMaxBtrfsDeviceId);
  for (uint64_t id = 1; id <= last_id; id++) {
    struct btrfs_ioctl_dev_info_args one = {};
    one.devid = id;
    status = Ioctl(mount_fd, BTRFS_IOC_DEV_INFO, &one, "BTRFS_IOC_DEV_INFO", path);
    if (status.IsErrno(ENODEV)) continue;
    if (!status.ok()) return status;
    one.path[sizeof one.path - 1] = '\0';
    const char* name = reinterpret_cast<const char*>(one.path);
    if (LeadsTo(name, device)) return BtrfsDevice{id, one.total_bytes, all.num_devices};
  }
  return NotOn("BTRFS_IOC_DEV_INFO", path, device_path);
}

Status CheckMountedFrom(int mount_fd, const std::string& path, dev_t device,
                        const std::string& device_path, const char* call) {
  Result<FileSystemKind> kind = KindOfFileSystem(mount_fd, path);
  RETURN_IF_ERROR(kind);
  // btrfs files have device numbers of their own.
  if (*kind == FileSystemKind::kBtrfs) {
    Result<BtrfsDevice> found = FindBtrfsDevice(mount_fd, path, device, device_path);
    return found.TakeStatus();
  }
  Result<struct stat> mounted = StatFd(mount_fd, path);
  RETURN_IF_ERROR(mounted);
  if (mounted->st_dev != device) return NotOn(call, path, device_path);
  return Status();
}

}  // namespace blockdelta
