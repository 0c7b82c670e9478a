// System calls that retry EINTR, always set O_CLOEXEC and turn errno into a Status.
//
// Each function makes one call and has no policy: the caller decides what a failure means.
#ifndef BLOCKDELTA_NATIVE_BASE_POSIX_H_
#define BLOCKDELTA_NATIVE_BASE_POSIX_H_

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "native/base/status.h"
#include "native/base/unique_fd.h"

namespace blockdelta {

// Repeats `call` while it fails with EINTR. Returns the last result.
template <typename Call>
auto RetryInterrupted(Call call) -> decltype(call()) {
  for (;;) {
    const auto result = call();
    if (result != -1 || errno != EINTR) return result;
  }
}

// Waits for the end of a lease on the file (fcntl(2), F_SETLEASE) with O_NONBLOCK too: loop_info.cc
// takes one for a moment.
Result<UniqueFd> OpenPath(const std::string& path, int flags, mode_t mode = 0);

// `argument` is a pointer or, for ioctls that take it by value, an unsigned long. `name` and `path`
// identify the call in the failure.
template <typename Argument>
Status Ioctl(int fd, unsigned long request, Argument argument, const char* name,
             const std::string& path) {
  if (RetryInterrupted([&] { return ioctl(fd, request, argument); }) == -1) {
    return Status::Errno(errno, name, path);
  }
  return Status();
}

Result<struct stat> StatFd(int fd, const std::string& path);
// lstat(2): does not follow a symbolic link in the last component.
Result<struct stat> StatPath(const std::string& path);
Status SyncFd(int fd, const std::string& path);
// fsync of a block device, a directory or a file by path.
Status SyncPath(const std::string& path);
Status UnlinkPath(const std::string& path);
Status TruncateFd(int fd, uint64_t size_bytes, const std::string& path);

// The directory part of a path: "/a/b" -> "/a", "/b" -> "/", "b" -> ".".
std::string DirectoryOf(const std::string& path);
// fsync of the directory that contains `path`. Makes the creation, rename or removal of names in it
// durable.
Status SyncDirectoryOf(const std::string& path);

inline constexpr uint64_t kNsPerMs = 1'000'000;
// CLOCK_REALTIME or CLOCK_MONOTONIC in nanoseconds.
uint64_t ClockNs(clockid_t clock);
void SleepMs(unsigned milliseconds);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_BASE_POSIX_H_
