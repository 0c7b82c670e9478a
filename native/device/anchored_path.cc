#include "native/device/anchored_path.h"

#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

namespace blockdelta {
namespace {

constexpr mode_t kDirectoryMode = 0750;
constexpr mode_t kFileMode = 0640;

// rmdir itself checks that a directory is empty.
bool IsRemovable(const struct stat& state) {
  return S_ISDIR(state.st_mode) || (S_ISREG(state.st_mode) && state.st_size == 0);
}

}  // namespace

Result<UniqueFd> OpenResolved(const std::string& path, int flags) {
  struct open_how how = {};
  how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
  how.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  const long fd = RetryInterrupted(
      [&] { return syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how); });
  if (fd == -1) return Status::Errno(errno, "openat2", path);
  return UniqueFd(static_cast<int>(fd));
}

Result<uint64_t> MountIdOf(int fd, const std::string& path) {
  const std::string name = "/proc/self/fdinfo/" + std::to_string(fd);
  Result<UniqueFd> info = OpenPath(name, O_RDONLY);
  RETURN_IF_ERROR(info);
  char text[512] = {};
  const ssize_t length = RetryInterrupted([&] { return read(info->get(), text, sizeof text - 1); });
  if (length == -1) return Status::Errno(errno, "read", name);
  const std::string found(text, static_cast<size_t>(length));
  constexpr char kField[] = "mnt_id:";
  const size_t at = found.find(kField);
  if (at == std::string::npos) return Status::Errno(EPROTO, "read", path, "no mnt_id in " + name);
  return std::strtoull(found.c_str() + at + sizeof kField - 1, nullptr, 10);
}

Result<AnchoredPath> AnchoredPath::Open(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash + 1 == path.size()) {
    return Status::Errno(EINVAL, "openat2", path, "it has no directory and name");
  }
  Result<UniqueFd> parent = OpenResolved(DirectoryOf(path), O_PATH | O_DIRECTORY);
  RETURN_IF_ERROR(parent);
  return AnchoredPath(std::move(*parent), path.substr(slash + 1), path);
}

Result<UniqueFd> AnchoredPath::OpenTop() const {
  const int fd = RetryInterrupted(
      [&] { return openat(parent_.get(), name_.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC); });
  if (fd == -1) return Status::Errno(errno, "openat", path_);
  return UniqueFd(fd);
}

Result<uint64_t> AnchoredPath::TopMountId() const {
  Result<UniqueFd> top = OpenTop();
  RETURN_IF_ERROR(top);
  return MountIdOf(top->get(), path_);
}

Result<bool> AnchoredPath::IsMountPoint() const {
  Result<uint64_t> top = TopMountId();
  RETURN_IF_ERROR(top);
  Result<uint64_t> parent = MountIdOf(parent_.get(), path_);
  RETURN_IF_ERROR(parent);
  return *top != *parent;
}

Result<bool> AnchoredPath::Make(bool directory) const {
  int result = -1;
  if (directory) {
    result =
        RetryInterrupted([&] { return mkdirat(parent_.get(), name_.c_str(), kDirectoryMode); });
  } else {
    constexpr int kFlags = O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC;
    result =
        RetryInterrupted([&] { return openat(parent_.get(), name_.c_str(), kFlags, kFileMode); });
    if (result != -1) UniqueFd(result).Close();
  }
  if (result != -1) return true;
  if (errno != EEXIST) return Status::Errno(errno, directory ? "mkdirat" : "openat", path_);
  return false;
}

Result<bool> AnchoredPath::Remove() const {
  struct stat state = {};
  constexpr int kFlags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT;
  if (fstatat(parent_.get(), name_.c_str(), &state, kFlags) == -1) {
    if (errno == ENOENT) return false;
    return Status::Errno(errno, "fstatat", path_);
  }
  if (!IsRemovable(state)) return Status::Errno(ENOTEMPTY, "unlinkat", path_);
  const int flags = S_ISDIR(state.st_mode) ? AT_REMOVEDIR : 0;
  if (unlinkat(parent_.get(), name_.c_str(), flags) == -1) {
    if (errno == ENOENT) return false;
    return Status::Errno(errno, "unlinkat", path_);
  }
  return true;
}

std::string AnchoredPath::DescriptorPath() const {
  return "/proc/self/fd/" + std::to_string(parent_.get()) + "/" + name_;
}

}  // namespace blockdelta
