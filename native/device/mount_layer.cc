#include "native/device/mount_layer.h"

#include <linux/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "native/device/mount_point.h"
#include "native/device/mount_table.h"

namespace blockdelta {
namespace {

// Flags of umount2(2); sys/mount.h and linux/mount.h cannot be included together.
constexpr unsigned kExpire = 4;    // MNT_EXPIRE
constexpr unsigned kNoFollow = 8;  // UMOUNT_NOFOLLOW

// A process that accesses the mount briefly makes it busy, or clears its expiry mark.
constexpr int kAttempts = 100;
constexpr unsigned kPauseMs = 10;
constexpr int kBusyAttempts = 10;

Status Covered(const std::string& path) {
  return Status::Errno(ESTALE, "umount2", path, "another mount is on top of it");
}

// Returns 0 or the errno.
int Expire(const AnchoredPath& anchored) {
  const std::string path = anchored.DescriptorPath();
  const long result =
      RetryInterrupted([&] { return syscall(SYS_umount2, path.c_str(), kExpire | kNoFollow); });
  return result == -1 ? errno : 0;
}

// Makes one attempt. EAGAIN if the mount was accessed meanwhile.
//
// The first MNT_EXPIRE call marks the top mount, the second unmounts it if the mark is still set;
// any use in between clears the mark. So what the kernel says between the calls holds for the
// second one: a mount placed on top in between would not be marked.
Result<bool> TryUnmount(const AnchoredPath& anchored, uint64_t mount_id) {
  std::optional<uint64_t> unique_id;
  {
    Result<UniqueFd> top = anchored.OpenTop();
    if (top.status().IsErrno(ENOENT)) return false;
    RETURN_IF_ERROR(top);
    Result<uint64_t> found = MountIdOf(top->get(), anchored.path());
    RETURN_IF_ERROR(found);
    if (*found != mount_id) return Covered(anchored.path());
    unique_id = UniqueMountIdOf(top->get());
  }
  const int marked = Expire(anchored);
  if (marked != EAGAIN) {
    return Status::Errno(marked == 0 ? ESTALE : marked, "umount2", anchored.path());
  }
  if (!unique_id.has_value() || !HasNothingOnIt(*unique_id)) {
    Result<std::string> mountinfo = ReadMountInfo();
    RETURN_IF_ERROR(mountinfo);
    if (!IsTopLayer(*mountinfo, mount_id)) return Covered(anchored.path());
  }
  const int unmounted = Expire(anchored);
  if (unmounted != 0) return Status::Errno(unmounted, "umount2", anchored.path());
  return true;
}

// A detached copy of the mount.
Result<UniqueFd> OpenCopy(const BindSource& source) {
  Result<UniqueFd> fd = OpenResolved(source.path, O_PATH);
  if (!fd.ok()) return fd;
  if (source.mount_id.has_value()) {
    Result<uint64_t> found = MountIdOf(fd->get(), source.path);
    RETURN_IF_ERROR(found);
    if (*found != *source.mount_id) {
      return Status::Errno(ESTALE, "open_tree", source.path, "another mount is there");
    }
  }
  if (source.device.has_value()) {
    Result<struct stat> state = StatFd(fd->get(), source.path);
    RETURN_IF_ERROR(state);
    if (!S_ISBLK(state->st_mode) || state->st_rdev != *source.device) {
      return Status::Errno(ESTALE, "open_tree", source.path, "another device is there");
    }
  }
  const long copy = RetryInterrupted([&] {
    return syscall(SYS_open_tree, fd->get(), "",
                   OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
  });
  if (copy == -1) return Status::Errno(errno, "open_tree", source.path);
  return UniqueFd(static_cast<int>(copy));
}

Status Apply(int mount_fd, const MountAttributes& attributes, const std::string& path) {
  struct mount_attr how = {};
  how.attr_set = attributes.set;
  how.attr_clr = attributes.clear;
  const long result = RetryInterrupted(
      [&] { return syscall(SYS_mount_setattr, mount_fd, "", AT_EMPTY_PATH, &how, sizeof how); });
  if (result == -1) return Status::Errno(errno, "mount_setattr", path);
  return Status();
}

}  // namespace

Result<bool> UnmountLayer(const std::string& path, uint64_t mount_id) {
  Result<AnchoredPath> anchored = AnchoredPath::Open(path);
  if (anchored.status().IsErrno(ENOENT)) return false;
  RETURN_IF_ERROR(anchored);
  int busy = 0;
  for (int attempt = 1;; attempt++) {
    Result<bool> done = TryUnmount(*anchored, mount_id);
    if (done.ok()) return done;
    const bool is_busy = done.status().IsErrno(EBUSY);
    if (is_busy) busy++;
    if (!is_busy && !done.status().IsErrno(EAGAIN)) return done;
    if (attempt == kAttempts || busy == kBusyAttempts) {
      return Status::Errno(EBUSY, "umount2", path, "it is in use");
    }
    SleepMs(kPauseMs);
  }
}

Status CheckFree(const AnchoredPath& target) {
  Result<bool> taken = target.IsMountPoint();
  RETURN_IF_ERROR(taken);
  if (!*taken) return Status();
  return Status::Errno(EBUSY, "move_mount", target.path(), "something is mounted on it");
}

Status PlaceMount(int mount_fd, const AnchoredPath& target) {
  RETURN_IF_ERROR(CheckFree(target));
  Result<UniqueFd> top = target.OpenTop();
  RETURN_IF_ERROR(top);
  const long result = RetryInterrupted([&] {
    return syscall(SYS_move_mount, mount_fd, "", top->get(), "",
                   MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
  });
  if (result == -1) return Status::Errno(errno, "move_mount", target.path());
  return Status();
}

Status BindMount(const BindSource& source, const std::string& target,
                 const MountAttributes& attributes) {
  Result<UniqueFd> copy = OpenCopy(source);
  RETURN_IF_ERROR(copy);
  RETURN_IF_ERROR(Apply(copy->get(), attributes, target));
  Result<AnchoredPath> anchored = AnchoredPath::Open(target);
  RETURN_IF_ERROR(anchored);
  return PlaceMount(copy->get(), *anchored);
}

Status SetMountAttributes(const std::string& path, uint64_t mount_id,
                          const MountAttributes& attributes) {
  Result<AnchoredPath> anchored = AnchoredPath::Open(path);
  RETURN_IF_ERROR(anchored);
  Result<UniqueFd> top = anchored->OpenTop();
  RETURN_IF_ERROR(top);
  Result<uint64_t> found = MountIdOf(top->get(), path);
  RETURN_IF_ERROR(found);
  if (*found != mount_id) {
    return Status::Errno(ESTALE, "mount_setattr", path, "another mount is there");
  }
  return Apply(top->get(), attributes, path);
}

}  // namespace blockdelta
