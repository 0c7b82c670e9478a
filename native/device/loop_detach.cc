// Detaches loop devices; see loop_attach.h.
//
// LOOP_CLR_FD succeeds even if another process has the device open: the device is then only marked
// to be detached at its last close. The result is therefore read back, and a mark that does not
// take effect in time is removed.
#include <linux/fs.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "native/device/file_lock.h"
#include "native/device/loop_attach.h"
#include "native/device/loop_change.h"

namespace blockdelta {
namespace {

// Time limit for programs that have the device open briefly. A caller that must wait longer calls
// again, so that no worker thread is blocked meanwhile.
constexpr uint64_t kTimeoutNs = 200'000'000;
constexpr unsigned kMaxPauseMs = 50;
// Maximum devices of one file; if there are more, another process keeps attaching the file.
constexpr int kMaxDevices = 64;
// The path in sysfs of a backing file that was the root of a mount, such as a bound device node,
// after the mount was removed from every mount namespace; the second if the node was also unlinked.
constexpr char kUnmounted[] = "/";
constexpr char kUnmountedUnlinked[] = "/ (deleted)";

enum class Which { kAll, kUnmounted };

Status Busy(const std::string& path, const char* why) {
  return Status::Errno(EBUSY, "LOOP_CLR_FD", path, why);
}

bool IsMeant(uint32_t number, Which which) {
  if (which == Which::kAll) return true;
  const std::optional<std::string> name = NamedFile(number);
  return name == kUnmounted || name == kUnmountedUnlinked;
}

bool Holds(int fd, const std::string& path, const FileIdentity& backing) {
  Result<struct loop_info64> info = LoopStatus(fd, path);
  return info.ok() && BackingOf(*info) == backing;
}

// Marks the device for detaching while no other process can claim it, and clears BLKROSET, which
// its number would keep. Returns the device as it was; nothing if it is not attached to this file.
Result<std::optional<LoopDevice>> Clear(const LoopDevice& device, const FileIdentity& backing,
                                        Which which) {
  std::optional<LoopDevice> nothing;
  // Mounts and device-mapper hold their devices exclusively: the open fails if there is such a
  // holder, and keeps new ones out until the device is cleared.
  Result<UniqueFd> fd = OpenLoop(device.number, O_RDONLY | O_EXCL);
  if (fd.status().IsErrno(EBUSY)) return Busy(device.path, "mounted or held exclusively");
  // The last close of another process is detaching the device.
  if (fd.status().IsErrno(ENXIO)) return nothing;
  RETURN_IF_ERROR(fd);
  // The open device stays attached to the same file, whatever others do with its number.
  Result<LoopDevice> before = DescribeLoop(fd->get());
  if (!before.ok() || !(before->backing == backing) || !IsMeant(device.number, which)) {
    return nothing;
  }
  const int writable = 0;
  Status status = Ioctl(fd->get(), BLKROSET, &writable, "BLKROSET", device.path);
  if (!status.ok()) return status;
  status = Ioctl(fd->get(), LOOP_CLR_FD, 0ul, "LOOP_CLR_FD", device.path);
  if (status.IsErrno(ENXIO)) return nothing;
  if (!status.ok()) return status;
  return std::optional<LoopDevice>(*before);
}

// Whether the device still belongs to the file. An open would itself delay the detach, so the
// device is opened only if sysfs shows a backing file.
bool StillAttached(const LoopDevice& device, const FileIdentity& backing) {
  if (!IsAttached(device.number)) return false;
  Result<UniqueFd> fd = OpenLoop(device.number, O_RDONLY);
  return fd.ok() && Holds(fd->get(), device.path, backing);
}

// Waits for the last close by other processes. False after the timeout.
bool WaitUntilGone(const LoopDevice& device, const FileIdentity& backing) {
  const uint64_t deadline = ClockNs(CLOCK_MONOTONIC) + kTimeoutNs;
  for (unsigned pause = 1;; pause = std::min(pause * 2, kMaxPauseMs)) {
    if (!StillAttached(device, backing)) return true;
    if (ClockNs(CLOCK_MONOTONIC) >= deadline) return false;
    SleepMs(pause);
  }
}

// Sets BLKROSET again on a device that stays attached. Does nothing to the next user of its number.
Status MakeReadOnly(const LoopDevice& device, const FileIdentity& backing) {
  Result<UniqueFd> fd = OpenLoop(device.number, O_RDONLY);
  RETURN_IF_ERROR(fd);
  if (!Holds(fd->get(), device.path, backing)) return Status();
  const int read_only = 1;
  return Ioctl(fd->get(), BLKROSET, &read_only, "BLKROSET", device.path);
}

Result<bool> DetachOne(const LoopDevice& device, const FileIdentity& backing,
                       Which which = Which::kAll) {
  Result<std::optional<LoopDevice>> cleared = Clear(device, backing, which);
  RETURN_IF_ERROR(cleared);
  if (!cleared->has_value()) return false;
  if (WaitUntilGone(device, backing)) {
    RecreateLoop(device.number);
    return true;
  }
  // Remove the mark: the device must not vanish later while it counts as attached.
  Result<bool> kept = CancelAutoclear(device.number, backing);
  if (!kept.ok()) return kept;
  if (!*kept) return true;
  // The device stays in use, and must be as read-only as before Clear(). One that was attached
  // read-only is so without BLKROSET, which its number would keep when the kernel detaches it.
  const bool was_set = (*cleared)->read_only && !(*cleared)->attached_read_only;
  if (was_set) RETURN_IF_ERROR(MakeReadOnly(device, backing));
  return Busy(device.path, "another process has the device open");
}

}  // namespace

Result<bool> DetachLoop(const std::string& backing_path, std::optional<uint32_t> hint) {
  Result<FileLock> lock = FileLock::Acquire(backing_path);
  if (lock.status().IsErrno(ENOENT)) return false;
  RETURN_IF_ERROR(lock);
  Result<struct stat> state = StatFd(lock->fd(), backing_path);
  RETURN_IF_ERROR(state);
  const FileIdentity backing = {state->st_dev, state->st_ino};
  const bool regular = S_ISREG(state->st_mode);
  bool detached = false;
  for (int i = 0; i < kMaxDevices; i++) {
    Result<std::optional<LoopDevice>> found =
        FindLoop({backing, backing_path, regular ? lock->fd() : -1, hint});
    RETURN_IF_ERROR(found);
    if (!found->has_value()) return detached;
    Result<bool> gone = DetachOne(**found, backing);
    if (!gone.ok()) return gone;
    if (!*gone) SleepMs(1);
    detached = detached || *gone;
  }
  return Busy(backing_path, "another process keeps attaching it");
}

Result<bool> DetachUnmountedLoops(const std::string& device_path) {
  struct stat node = {};
  if (stat(device_path.c_str(), &node) == -1) return Status::Errno(errno, "stat", device_path);
  Result<std::vector<uint32_t>> numbers = AttachedLoops();
  RETURN_IF_ERROR(numbers);
  bool detached = false;
  for (const uint32_t number : *numbers) {
    if (!IsMeant(number, Which::kUnmounted)) continue;
    LoopDevice device = {};
    device.number = number;
    device.path = LoopPath(number);
    {
      Result<UniqueFd> fd = OpenLoop(number, O_RDONLY);
      if (!fd.ok()) continue;
      Result<struct loop_info64> info = LoopStatus(fd->get(), device.path);
      if (!info.ok() || info->lo_rdevice != node.st_rdev) continue;
      device.backing = BackingOf(*info);
    }
    // Failures are ignored: a device that is in use or being detached keeps no other one attached.
    Result<bool> gone = DetachOne(device, device.backing, Which::kUnmounted);
    detached = detached || (gone.ok() && *gone);
  }
  return detached;
}

}  // namespace blockdelta
