#include "native/device/directory_list.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <memory>

namespace blockdelta {
namespace {

// stat(2): st_blocks counts 512 bytes, whatever the block size of the file system is.
constexpr uint64_t kStatBlockBytes = 512;

bool IsDots(const std::string& name) { return name == "." || name == ".."; }

}  // namespace

Result<std::vector<ListedFile>> ListDirectory(const std::string& path, bool sizes) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(path.c_str()), closedir);
  if (directory == nullptr) return Status::Errno(errno, "opendir", path);
  const int fd = dirfd(directory.get());
  std::vector<ListedFile> files;
  for (;;) {
    errno = 0;
    const struct dirent* entry = readdir(directory.get());
    if (entry == nullptr) break;
    const std::string name = entry->d_name;
    if (IsDots(name)) continue;
    // XFS without ftype reports no types.
    if (!sizes && entry->d_type != DT_UNKNOWN) {
      files.push_back({name, 0, 0, entry->d_type == DT_REG});
      continue;
    }
    struct stat state;
    if (fstatat(fd, name.c_str(), &state, AT_SYMLINK_NOFOLLOW) == -1) {
      if (errno == ENOENT) continue;
      return Status::Errno(errno, "fstatat", path + "/" + name);
    }
    files.push_back({name, static_cast<uint64_t>(state.st_size),
                     static_cast<uint64_t>(state.st_blocks) * kStatBlockBytes,
                     S_ISREG(state.st_mode)});
  }
  if (errno != 0) return Status::Errno(errno, "readdir", path);
  return files;
}

}  // namespace blockdelta
