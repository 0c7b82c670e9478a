#include "native/scan/address_fence.h"

#include <linux/btrfs.h>
#include <linux/magic.h>
#include <sys/utsname.h>
#include <sys/vfs.h>

#include <cstdio>

namespace blockdelta {
namespace {

Result<uint64_t> Magic(const SnapshotFile& file) {
  struct statfs state;
  if (RetryInterrupted([&] { return fstatfs(file.fd(), &state); }) == -1) {
    return Status::Errno(errno, "fstatfs", file.path());
  }
  return static_cast<uint64_t>(static_cast<uint32_t>(state.f_type));
}

Status Unsupported(const std::string& path, const std::string& why) {
  return Status::Scan(kScanUnsupported, path, "the changes of ", " cannot be listed: " + why);
}

// Also false if the version is unknown.
bool IsKernelAtLeast(int major, int minor) {
  struct utsname name;
  int found_major = 0;
  int found_minor = 0;
  if (uname(&name) == -1) return false;
  if (std::sscanf(name.release, "%d.%d", &found_major, &found_minor) != 2) return false;
  return found_major > major || (found_major == major && found_minor >= minor);
}

std::string Hex(uint64_t value) {
  char text[2 + 16 + 1];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace

Result<AddressFence> AddressFence::ForPair(const SnapshotFile& target, const SnapshotFile& base) {
  if (target.device() != base.device()) {
    return Unsupported(target.path(), "its base is on another file system");
  }
  Result<uint64_t> magic = Magic(target);
  RETURN_IF_ERROR(magic);
  if (*magic != XFS_SUPER_MAGIC && *magic != BTRFS_SUPER_MAGIC) {
    return Unsupported(target.path(), "equal addresses on a file system of type " + Hex(*magic) +
                                          " do not prove equal content; use XFS or btrfs");
  }
  const bool moves = *magic == BTRFS_SUPER_MAGIC;
  if (moves && !IsKernelAtLeast(6, 1)) {
    return Unsupported(target.path(), "on btrfs this needs Linux 6.1 or later");
  }
  for (const SnapshotFile* file : {&target, &base}) {
    RETURN_IF_ERROR(file->CheckFrozen());
  }
  return AddressFence(target, moves, true);
}

Result<AddressFence> AddressFence::ForOne(const SnapshotFile& target) {
  Result<uint64_t> magic = Magic(target);
  RETURN_IF_ERROR(magic);
  return AddressFence(target, *magic == BTRFS_SUPER_MAGIC, false);
}

Status AddressFence::Raise() {
  if (!moves_ || !compares_) return Status();
  Result<uint64_t> generation = Generation();
  RETURN_IF_ERROR(generation);
  generation_ = *generation;
  return Status();
}

Result<bool> AddressFence::Holds() {
  if (!moves_ || !compares_) return true;
  Result<uint64_t> generation = Generation();
  RETURN_IF_ERROR(generation);
  return *generation == generation_;
}

Result<uint64_t> AddressFence::Generation() const {
  struct btrfs_ioctl_fs_info_args info = {};
  info.flags = BTRFS_FS_INFO_FLAG_GENERATION;
  RETURN_IF_ERROR(Ioctl(fd_, BTRFS_IOC_FS_INFO, &info, "BTRFS_IOC_FS_INFO", path_));
  // The kernel clears the flags it does not support.
  if ((info.flags & BTRFS_FS_INFO_FLAG_GENERATION) == 0) {
    return Unsupported(path_, "this kernel does not report the generation of a btrfs");
  }
  return static_cast<uint64_t>(info.generation);
}

}  // namespace blockdelta
