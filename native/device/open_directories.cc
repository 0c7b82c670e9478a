#include "native/device/open_directories.h"

#include <utility>

namespace blockdelta {
namespace {

constexpr int kDirectory = O_PATH | O_DIRECTORY | O_CLOEXEC;

Status Add(int fd, const std::string& path, std::vector<OpenDirectory>* opened) {
  if (fd == -1) return Status::Errno(errno, "open", path);
  OpenDirectory directory = {UniqueFd(fd), 0, 0};
  Result<struct stat> state = StatFd(fd, path);
  RETURN_IF_ERROR(state);
  directory.device = state->st_dev;
  directory.inode = state->st_ino;
  opened->push_back(std::move(directory));
  return Status();
}

}  // namespace

Result<std::vector<OpenDirectory>> OpenDirectories(const std::string& root,
                                                   const std::vector<std::string>& names) {
  std::vector<OpenDirectory> opened;
  Status status =
      Add(RetryInterrupted([&] { return open(root.c_str(), kDirectory); }), root, &opened);
  for (const std::string& name : names) {
    if (!status.ok()) break;
    const int root_fd = opened.front().fd.get();
    const int fd =
        RetryInterrupted([&] { return openat(root_fd, name.c_str(), kDirectory | O_NOFOLLOW); });
    status = Add(fd, root + "/" + name, &opened);
  }
  if (!status.ok()) return status;
  return opened;
}

}  // namespace blockdelta
