#include "native/base/seal.h"

#include <sys/xattr.h>

namespace blockdelta {
namespace {

constexpr char kAttribute[] = "user.blockdelta.seal";
constexpr size_t kMaxSealBytes = 128;

std::string SealOf(const struct stat& state) {
  return "size=" + std::to_string(state.st_size) +
         " mtime=" + std::to_string(state.st_mtim.tv_sec) + "s+" +
         std::to_string(state.st_mtim.tv_nsec) + "ns";
}

}  // namespace

Status WriteSeal(int fd, const std::string& path) {
  Result<struct stat> state = StatFd(fd, path);
  RETURN_IF_ERROR(state);
  const std::string seal = SealOf(*state);
  if (RetryInterrupted([&] { return fsetxattr(fd, kAttribute, seal.data(), seal.size(), 0); }) ==
      -1) {
    return Status::Errno(errno, "fsetxattr", path);
  }
  return Status();
}

Result<bool> MatchesSeal(int fd, const struct stat& state, const std::string& path) {
  char seal[kMaxSealBytes];
  const ssize_t length =
      RetryInterrupted([&] { return fgetxattr(fd, kAttribute, seal, sizeof seal); });
  if (length >= 0) return SealOf(state) == std::string(seal, static_cast<size_t>(length));
  if (errno == ENODATA || errno == EOPNOTSUPP) return true;
  // The stored value is longer than any seal of ours.
  if (errno == ERANGE) return false;
  return Status::Errno(errno, "fgetxattr", path);
}

}  // namespace blockdelta
