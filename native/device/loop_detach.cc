// Detaching: the half of loop_attach.h that has to wait for others.
//
// LOOP_CLR_FD succeeds although somebody else has the device open; the device is then only marked
// to go at the last close. So success is what is seen afterwards, and a mark that does not take
// effect in time is taken back.
#include <linux/fs.h>

#include <algorithm>
#include <utility>

#include "native/device/file_lock.h"
#include "native/device/loop_attach.h"
#include "native/device/loop_change.h"

namespace blockdelta {
namespace {

// For programs that read the device for a moment. Whoever has to wait longer calls again, so that
// no thread is blocked meanwhile.
constexpr uint64_t kPatienceNs = 200'000'000;
constexpr unsigned kMaxPauseMs = 50;
// One file on more devices than this is not our doing, and somebody keeps attaching it.
constexpr int kMaxDevices = 64;

Status Busy(const std::string& path, const char* why) {
  return Status::Errno(EBUSY, "LOOP_CLR_FD", path, why);
}

bool Holds(int fd, const std::string& path, const FileIdentity& backing) {
  Result<struct loop_info64> info = LoopStatus(fd, path);
  return info.ok() && BackingOf(*info) == backing;
}

// Marks the device for detaching while nobody else can claim it, and takes BLKROSET off it, which
// its number would keep. False: it is not attached to this file (any more).
Result<bool> Clear(const LoopDevice& device, const FileIdentity& backing) {
  // Mounts and device-mapper hold their devices exclusively, so this fails if there is one, and
  // keeps new ones away until the device is cleared.
  Result<UniqueFd> fd = OpenLoop(device.number, O_RDONLY | O_EXCL);
  if (fd.status().IsErrno(EBUSY)) return Busy(device.path, "mounted or held exclusively");
  // Being cleared at this moment, by the last close of somebody who only looked at it.
  if (fd.status().IsErrno(ENXIO)) return false;
  if (!fd.ok()) return fd.TakeStatus();
  if (!Holds(fd->get(), device.path, backing)) return false;
  const int writable = 0;
  Status status = Ioctl(fd->get(), BLKROSET, &writable, "BLKROSET", device.path);
  if (!status.ok()) return status;
  status = Ioctl(fd->get(), LOOP_CLR_FD, 0ul, "LOOP_CLR_FD", device.path);
  if (status.IsErrno(ENXIO)) return false;
  if (!status.ok()) return status;
  return true;
}

// Whether the device still belongs to the file. Opening it would itself delay the detaching, so the
// device is opened only if sysfs says that it is attached to something.
bool StillAttached(const LoopDevice& device, const FileIdentity& backing) {
  if (!IsAttached(device.number)) return false;
  Result<UniqueFd> fd = OpenLoop(device.number, O_RDONLY);
  return fd.ok() && Holds(fd->get(), device.path, backing);
}

// Waits for the last close of the device by others. False: it did not come in time.
bool WaitUntilGone(const LoopDevice& device, const FileIdentity& backing) {
  const uint64_t deadline = ClockNs(CLOCK_MONOTONIC) + kPatienceNs;
  for (unsigned pause = 1;; pause = std::min(pause * 2, kMaxPauseMs)) {
    if (!StillAttached(device, backing)) return true;
    if (ClockNs(CLOCK_MONOTONIC) >= deadline) return false;
    SleepMs(pause);
  }
}

Result<bool> DetachOne(const LoopDevice& device, const FileIdentity& backing) {
  Result<bool> cleared = Clear(device, backing);
  if (!cleared.ok() || !*cleared) return cleared;
  if (WaitUntilGone(device, backing)) {
    RenewLoop(device.number);
    return true;
  }
  // The mark is taken back: a device must not vanish while it is thought to be attached.
  Result<bool> kept = KeepLoop(device.number, backing);
  if (!kept.ok()) return kept;
  if (*kept) return Busy(device.path, "another process has the device open");
  return true;
}

}  // namespace

Result<bool> DetachLoop(const std::string& backing_path) {
  Result<FileLock> lock = FileLock::Acquire(backing_path);
  if (lock.status().IsErrno(ENOENT)) return false;
  if (!lock.ok()) return lock.TakeStatus();
  Result<struct stat> state = StatFd(lock->fd(), backing_path);
  if (!state.ok()) return state.TakeStatus();
  const FileIdentity backing = {state->st_dev, state->st_ino};
  bool detached = false;
  for (int i = 0; i < kMaxDevices; i++) {
    Result<std::optional<LoopDevice>> found = FindLoop(backing, backing_path);
    if (!found.ok()) return found.TakeStatus();
    if (!found->has_value()) return detached;
    Result<bool> gone = DetachOne(**found, backing);
    if (!gone.ok()) return gone;
    if (!*gone) SleepMs(1);
    detached = detached || *gone;
  }
  return Busy(backing_path, "it is attached again and again");
}

}  // namespace blockdelta
