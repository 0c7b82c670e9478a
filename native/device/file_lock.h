// An exclusive flock that serializes attaching, detaching and growing one backing file, across
// threads and processes.
#ifndef BLOCKDELTA_NATIVE_DEVICE_FILE_LOCK_H_
#define BLOCKDELTA_NATIVE_DEVICE_FILE_LOCK_H_

#include <sys/file.h>
#include <time.h>

#include <string>

#include "native/base/posix.h"

namespace blockdelta {

class FileLock {
 public:
  // Waits for the current holder, which normally attaches or detaches the file; EBUSY after 15 s.
  // The lock belongs to its own open file: a descriptor that is passed to a loop device would keep
  // the lock.
  static Result<FileLock> Acquire(const std::string& path) {
    Result<UniqueFd> fd = OpenPath(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    RETURN_IF_ERROR(fd);
    const uint64_t deadline = ClockNs(CLOCK_MONOTONIC) + kTimeoutNs;
    while (flock(fd->get(), LOCK_EX | LOCK_NB) == -1) {
      if (errno != EWOULDBLOCK && errno != EINTR) return Status::Errno(errno, "flock", path);
      if (ClockNs(CLOCK_MONOTONIC) >= deadline) {
        return Status::Errno(EBUSY, "flock", path, "another process holds a lock on it");
      }
      SleepMs(kPauseMs);
    }
    return FileLock(std::move(*fd));
  }

  // The locked file, open for reading.
  int fd() const { return fd_.get(); }

 private:
  static constexpr uint64_t kTimeoutNs = 15'000'000'000;
  static constexpr unsigned kPauseMs = 5;

  explicit FileLock(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_FILE_LOCK_H_
