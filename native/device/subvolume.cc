#include "native/device/subvolume.h"

#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstring>

namespace blockdelta {
namespace {

constexpr mode_t kMode = 0700;

static_assert(sizeof(struct btrfs_ioctl_vol_args) == 4096, "ABI of BTRFS_IOC_SUBVOL_CREATE");
static_assert(sizeof(struct btrfs_ioctl_vol_args_v2) == 4096, "ABI of BTRFS_IOC_SNAP_CREATE_V2");

// The last component of a path.
std::string NameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

Status CheckName(const std::string& path) {
  const std::string name = NameOf(path);
  if (name.empty() || name == "." || name == "..") return Status::Errno(EINVAL, "open", path);
  if (name.size() > NAME_MAX) return Status::Errno(ENAMETOOLONG, "open", path);
  return Status();
}

// Opens the directory that holds the name. The ioctls refuse a descriptor of O_PATH.
Result<UniqueFd> OpenParent(const std::string& path) {
  RETURN_IF_ERROR(CheckName(path));
  return OpenPath(DirectoryOf(path), O_RDONLY | O_DIRECTORY);
}

Result<bool> IsBtrfs(int fd, const std::string& path) {
  struct statfs state;
  if (RetryInterrupted([&] { return fstatfs(fd, &state); }) == -1) {
    return Status::Errno(errno, "fstatfs", path);
  }
  return static_cast<uint32_t>(state.f_type) == BTRFS_SUPER_MAGIC;
}

// For BTRFS_IOC_SUBVOL_CREATE and BTRFS_IOC_SNAP_DESTROY. REQUIRES: CheckName.
struct btrfs_ioctl_vol_args Named(const std::string& path) {
  struct btrfs_ioctl_vol_args arguments = {};
  const std::string name = NameOf(path);
  std::memcpy(arguments.name, name.data(), name.size());
  return arguments;
}

}  // namespace

Result<bool> MakeSubvolume(const NewFileNames& names) {
  RETURN_IF_ERROR(CheckName(names.final));
  Result<UniqueFd> parent = OpenParent(names.temporary);
  RETURN_IF_ERROR(parent);
  Result<bool> is_btrfs = IsBtrfs(parent->get(), names.temporary);
  if (!is_btrfs.ok() || !*is_btrfs) return is_btrfs;
  Result<struct stat> existing = StatPath(names.final);
  if (existing.ok()) return false;
  if (!existing.status().IsErrno(ENOENT)) return existing.TakeStatus();
  // Removes an empty subvolume as well as an empty directory.
  if (rmdir(names.temporary.c_str()) == -1 && errno != ENOENT) {
    return Status::Errno(errno, "rmdir", names.temporary);
  }
  const struct btrfs_ioctl_vol_args arguments = Named(names.temporary);
  RETURN_IF_ERROR(Ioctl(parent->get(), BTRFS_IOC_SUBVOL_CREATE, &arguments,
                        "BTRFS_IOC_SUBVOL_CREATE", names.temporary));
  if (chmod(names.temporary.c_str(), kMode) == -1) {
    return Status::Errno(errno, "chmod", names.temporary);
  }
  if (renameat2(AT_FDCWD, names.temporary.c_str(), AT_FDCWD, names.final.c_str(),
                RENAME_NOREPLACE) == -1) {
    return Status::Errno(errno, "renameat2", names.final);
  }
  // A log replay restores only the files of subvolumes that were committed.
  if (RetryInterrupted([&] { return syncfs(parent->get()); }) == -1) {
    return Status::Errno(errno, "syncfs", names.final);
  }
  return true;
}

Result<bool> IsSubvolume(int fd, const std::string& path) {
  Result<struct stat> state = StatFd(fd, path);
  RETURN_IF_ERROR(state);
  if (!S_ISDIR(state->st_mode) || state->st_ino != BTRFS_FIRST_FREE_OBJECTID) return false;
  return IsBtrfs(fd, path);
}

Result<SubvolumeCopy> SubvolumeCopy::Make(int source_fd, std::string path) {
  Result<UniqueFd> parent = OpenParent(path);
  RETURN_IF_ERROR(parent);
  struct btrfs_ioctl_vol_args_v2 arguments = {};
  arguments.fd = source_fd;
  arguments.flags = BTRFS_SUBVOL_RDONLY;
  const std::string name = NameOf(path);
  std::memcpy(arguments.name, name.data(), name.size());
  Status status =
      Ioctl(parent->get(), BTRFS_IOC_SNAP_CREATE_V2, &arguments, "BTRFS_IOC_SNAP_CREATE_V2", path);
  if (!status.ok()) return status;
  return SubvolumeCopy(std::move(path));
}

SubvolumeCopy::~SubvolumeCopy() {
  if (!path_.empty()) static_cast<void>(RemoveSubvolumeCopy(path_));
}

Result<UniqueFd> SubvolumeCopy::Open(const std::string& name, uint64_t inode) const {
  const std::string path = path_ + "/" + name;
  Result<UniqueFd> fd = OpenPath(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!fd.ok()) return fd;
  Result<struct stat> state = StatFd(fd->get(), path);
  RETURN_IF_ERROR(state);
  if (!S_ISREG(state->st_mode) || state->st_ino != inode) {
    return Status::Errno(ESTALE, "open", path, "it is not the copy of the volume's file");
  }
  return fd;
}

Result<bool> RemoveSubvolumeCopy(const std::string& path) {
  Result<UniqueFd> parent = OpenParent(path);
  RETURN_IF_ERROR(parent);
  {
    Result<UniqueFd> copy = OpenPath(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (copy.status().IsErrno(ENOENT)) return false;
    RETURN_IF_ERROR(copy);
    Result<bool> is_subvolume = IsSubvolume(copy->get(), path);
    if (!is_subvolume.ok()) return is_subvolume;
    uint64_t flags = 0;
    if (*is_subvolume) {
      Status status =
          Ioctl(copy->get(), BTRFS_IOC_SUBVOL_GETFLAGS, &flags, "BTRFS_IOC_SUBVOL_GETFLAGS", path);
      if (!status.ok()) return status;
    }
    if ((flags & BTRFS_SUBVOL_RDONLY) == 0) {
      return Status::Errno(EINVAL, "removeSubvolumeCopy", path, "it is not a read-only subvolume");
    }
  }
  const struct btrfs_ioctl_vol_args arguments = Named(path);
  Status status =
      Ioctl(parent->get(), BTRFS_IOC_SNAP_DESTROY, &arguments, "BTRFS_IOC_SNAP_DESTROY", path);
  if (!status.ok()) return status;
  return true;
}

}  // namespace blockdelta
