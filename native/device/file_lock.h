// An exclusive lock between all threads and processes that attach one file, held while this lives.
#ifndef BLOCKDELTA_NATIVE_DEVICE_FILE_LOCK_H_
#define BLOCKDELTA_NATIVE_DEVICE_FILE_LOCK_H_

#include <sys/file.h>

#include <string>

#include "native/base/posix.h"

namespace blockdelta {

class FileLock {
 public:
  // Waits for whoever holds it; they hold it for as long as attaching or detaching takes. The lock
  // belongs to an open file of its own: one that was handed to a loop device would keep it.
  static Result<FileLock> Acquire(const std::string& path) {
    Result<UniqueFd> fd = OpenPath(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (!fd.ok()) return fd.TakeStatus();
    if (RetryInterrupted([&] { return flock(fd->get(), LOCK_EX); }) == -1) {
      return Status::Errno(errno, "flock", path);
    }
    return FileLock(std::move(*fd));
  }

  // The locked file, open for reading.
  int fd() const { return fd_.get(); }

 private:
  explicit FileLock(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_FILE_LOCK_H_
