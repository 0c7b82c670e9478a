#include "native/base/posix.h"

#include <time.h>

namespace blockdelta {

namespace {

// More than any lease of this program lasts, even if its thread waits for a processor.
constexpr unsigned kLeaseWaitMs = 5000;

}  // namespace

Result<UniqueFd> OpenPath(const std::string& path, int flags, mode_t mode) {
  for (unsigned waited_ms = 0;; waited_ms++) {
    const int fd = RetryInterrupted([&] { return open(path.c_str(), flags | O_CLOEXEC, mode); });
    if (fd != -1) return UniqueFd(fd);
    if (errno != EWOULDBLOCK || waited_ms == kLeaseWaitMs) {
      return Status::Errno(errno, "open", path);
    }
    SleepMs(1);
  }
}

Result<struct stat> StatFd(int fd, const std::string& path) {
  struct stat state;
  if (fstat(fd, &state) == -1) return Status::Errno(errno, "fstat", path);
  return state;
}

Result<struct stat> StatPath(const std::string& path) {
  struct stat state;
  if (lstat(path.c_str(), &state) == -1) return Status::Errno(errno, "lstat", path);
  return state;
}

Status SyncFd(int fd, const std::string& path) {
  if (RetryInterrupted([&] { return fsync(fd); }) == -1) {
    return Status::Errno(errno, "fsync", path);
  }
  return Status();
}

Status SyncPath(const std::string& path) {
  Result<UniqueFd> fd = OpenPath(path, O_RDONLY | O_NONBLOCK);
  RETURN_IF_ERROR(fd);
  return SyncFd(fd->get(), path);
}

Status UnlinkPath(const std::string& path) {
  if (unlink(path.c_str()) == -1) return Status::Errno(errno, "unlink", path);
  return Status();
}

Status TruncateFd(int fd, uint64_t size_bytes, const std::string& path) {
  const auto size = static_cast<off_t>(size_bytes);
  if (size < 0) return Status::Errno(EFBIG, "ftruncate", path);
  if (RetryInterrupted([&] { return ftruncate(fd, size); }) == -1) {
    return Status::Errno(errno, "ftruncate", path);
  }
  return Status();
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status SyncDirectoryOf(const std::string& path) {
  const std::string directory = DirectoryOf(path);
  Result<UniqueFd> fd = OpenPath(directory, O_RDONLY | O_DIRECTORY);
  RETURN_IF_ERROR(fd);
  return SyncFd(fd->get(), directory);
}

uint64_t ClockNs(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

void SleepMs(unsigned milliseconds) {
  struct timespec left = {static_cast<time_t>(milliseconds / 1000),
                          static_cast<long>(milliseconds % 1000) * 1'000'000};
  while (nanosleep(&left, &left) == -1 && errno == EINTR) {
  }
}

}  // namespace blockdelta
