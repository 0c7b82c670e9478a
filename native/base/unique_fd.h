// Owns a file descriptor and closes it once.
#ifndef BLOCKDELTA_NATIVE_BASE_UNIQUE_FD_H_
#define BLOCKDELTA_NATIVE_BASE_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace blockdelta {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    Close();
    fd_ = std::exchange(other.fd_, -1);
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { Close(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

  // Passes the descriptor on to the caller, who closes it.
  int Release() { return std::exchange(fd_, -1); }

  // close(2) is never retried: Linux releases the descriptor even if it fails with EINTR.
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_BASE_UNIQUE_FD_H_
