#include "native/device/file_system_growth.h"

#include <linux/btrfs.h>
#include <linux/fs.h>
#include <sys/vfs.h>

#include <array>
#include <cstdio>
#include <utility>

#include "native/device/ext4_layout.h"

namespace blockdelta {
namespace {

// No linux/ header defines these.
constexpr unsigned long kExt4Resize = _IOW('f', 16, uint64_t);  // EXT4_IOC_RESIZE_FS

struct XfsGeometry {  // xfs_fsop_geom_v1
  uint32_t block_bytes;
  uint32_t unused_1[6];
  uint32_t max_inode_percent;
  uint64_t data_blocks;
  uint8_t unused_2[72];
};
static_assert(sizeof(XfsGeometry) == 112, "ABI of XFS_IOC_FSGEOMETRY_V1");
constexpr unsigned long kXfsGeometry = _IOR('X', 100, XfsGeometry);

struct XfsGrowth {  // xfs_growfs_data
  uint64_t data_blocks;
  uint32_t max_inode_percent;
};
static_assert(sizeof(XfsGrowth) == 16, "ABI of XFS_IOC_FSGROWFSDATA");
constexpr unsigned long kXfsGrow = _IOW('X', 110, XfsGrowth);

static_assert(sizeof(struct btrfs_ioctl_vol_args) == 4096, "ABI of BTRFS_IOC_RESIZE");

// A mount point and the device it must grow to.
struct Target {
  UniqueFd mount;
  std::string mount_point;
  UniqueFd device;
  std::string device_path;
  dev_t device_number;
  uint64_t device_bytes;
};

Result<Target> OpenTarget(const std::string& mount_point, const std::string& device_path) {
  Result<UniqueFd> mount = OpenPath(mount_point, O_RDONLY | O_DIRECTORY);
  RETURN_IF_ERROR(mount);
  Result<UniqueFd> device = OpenPath(device_path, O_RDONLY | O_NONBLOCK);
  RETURN_IF_ERROR(device);
  Result<struct stat> state = StatFd(device->get(), device_path);
  RETURN_IF_ERROR(state);
  if (!S_ISBLK(state->st_mode)) return Status::Errno(ENOTBLK, "open", device_path);
  uint64_t bytes = 0;
  RETURN_IF_ERROR(Ioctl(device->get(), BLKGETSIZE64, &bytes, "BLKGETSIZE64", device_path));
  return Target{std::move(*mount), mount_point,    std::move(*device),
                device_path,       state->st_rdev, bytes};
}

Result<uint64_t> CapacityOf(const Target& target) {
  struct statfs state = {};
  if (RetryInterrupted([&] { return fstatfs(target.mount.get(), &state); }) == -1) {
    return Status::Errno(errno, "fstatfs", target.mount_point);
  }
  const auto unit = static_cast<uint64_t>(state.f_frsize > 0 ? state.f_frsize : state.f_bsize);
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<uint64_t>(state.f_blocks), unit, &bytes)) {
    return Status::Errno(EOVERFLOW, "fstatfs", target.mount_point);
  }
  return bytes;
}

// Names the missing capability for EPERM, and turns ENOTTY into EOPNOTSUPP.
Status Explain(Status status, const char* call, const Target& target, const char* capability) {
  if (status.IsErrno(EPERM)) {
    return Status::Errno(EPERM, call, target.mount_point, std::string("it needs ") + capability);
  }
  if (status.IsErrno(ENOTTY)) return Status::Errno(EOPNOTSUPP, call, target.mount_point);
  return status;
}

Status GrowExt4(const Target& target) {
  constexpr char kCall[] = "EXT4_IOC_RESIZE_FS";
  std::array<uint8_t, kExt4SuperblockBytes> bytes = {};
  // The kernel itself keeps the superblock in the device's page cache.
  const ssize_t got = RetryInterrupted([&] {
    return pread(target.device.get(), bytes.data(), bytes.size(), kExt4SuperblockOffset);
  });
  if (got == -1) return Status::Errno(errno, "pread", target.device_path);
  const std::optional<Ext4Layout> layout =
      static_cast<size_t>(got) == bytes.size() ? ParseExt4Superblock(bytes.data()) : std::nullopt;
  if (!layout.has_value()) {
    return Status::Errno(EUCLEAN, kCall, target.device_path,
                         "the device has no valid ext4 superblock");
  }
  if (!CanGrowTo(*layout, target.device_bytes)) return Status();
  const uint64_t blocks = target.device_bytes / layout->block_bytes;
  Status status = Ioctl(target.mount.get(), kExt4Resize, &blocks, kCall, target.mount_point);
  return Explain(std::move(status), kCall, target, "CAP_SYS_RESOURCE");
}

Status GrowXfs(const Target& target) {
  constexpr char kCall[] = "XFS_IOC_FSGROWFSDATA";
  XfsGeometry geometry = {};
  Status status = Ioctl(target.mount.get(), kXfsGeometry, &geometry, "XFS_IOC_FSGEOMETRY_V1",
                        target.mount_point);
  if (!status.ok()) return status;
  if (geometry.block_bytes < 512) {
    return Status::Errno(EUCLEAN, kCall, target.mount_point,
                         "the block size of its geometry is below 512");
  }
  XfsGrowth growth = {target.device_bytes / geometry.block_bytes, geometry.max_inode_percent};
  if (growth.data_blocks <= geometry.data_blocks) return Status();
  status = Ioctl(target.mount.get(), kXfsGrow, &growth, kCall, target.mount_point);
  return Explain(std::move(status), kCall, target, "CAP_SYS_ADMIN");
}

Status GrowBtrfs(const Target& target) {
  constexpr char kCall[] = "BTRFS_IOC_RESIZE";
  Result<BtrfsDevice> device = FindBtrfsDevice(target.mount.get(), target.mount_point,
                                               target.device_number, target.device_path);
  RETURN_IF_ERROR(device);
  if (device->device_count != 1) {
    return Status::Errno(EOPNOTSUPP, kCall, target.mount_point, "it spans several devices");
  }
  // btrfs grows in units of its sector size, which is never smaller than this.
  constexpr uint64_t kSectorBytes = 4096;
  if (target.device_bytes < device->total_bytes ||
      target.device_bytes - device->total_bytes < kSectorBytes) {
    return Status();
  }
  struct btrfs_ioctl_vol_args arguments = {};
  const int length = std::snprintf(arguments.name, sizeof arguments.name, "%llu:max",
                                   static_cast<unsigned long long>(device->id));
  static_cast<void>(length);
  const int result =
      RetryInterrupted([&] { return ioctl(target.mount.get(), BTRFS_IOC_RESIZE, &arguments); });
  // A positive result is not an errno but a BTRFS_ERROR_DEV_* code.
  if (result > 0) {
    return Status::Errno(EBUSY, kCall, target.mount_point,
                         "a balance, replacement or another resize is running");
  }
  if (result == 0) return Status();
  Status status = Status::Errno(errno, kCall, target.mount_point);
  return Explain(std::move(status), kCall, target, "CAP_SYS_ADMIN");
}

Status Grow(const Target& target, FileSystemKind kind) {
  switch (kind) {
    case FileSystemKind::kExt4:
      return GrowExt4(target);
    case FileSystemKind::kXfs:
      return GrowXfs(target);
    case FileSystemKind::kBtrfs:
      return GrowBtrfs(target);
    case FileSystemKind::kOther:
      break;
  }
  return Status::Errno(EOPNOTSUPP, "growFileSystem", target.mount_point,
                       "only ext4, xfs and btrfs can be grown");
}

}  // namespace

Result<Growth> GrowFileSystem(const std::string& mount_point, const std::string& device_path) {
  Result<Target> target = OpenTarget(mount_point, device_path);
  RETURN_IF_ERROR(target);
  RETURN_IF_ERROR(CheckMountedFrom(target->mount.get(), mount_point, target->device_number,
                                   device_path, "growFileSystem"));
  Result<FileSystemKind> kind = KindOfFileSystem(target->mount.get(), mount_point);
  RETURN_IF_ERROR(kind);
  Result<uint64_t> before = CapacityOf(*target);
  RETURN_IF_ERROR(before);
  RETURN_IF_ERROR(Grow(*target, *kind));
  Result<uint64_t> after = CapacityOf(*target);
  RETURN_IF_ERROR(after);
  return Growth{*kind, *before, *after};
}

}  // namespace blockdelta
