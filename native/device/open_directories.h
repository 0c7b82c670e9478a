// Opens a directory and directories in it, each once, so that names in them can be reached whatever
// is mounted over their paths meanwhile.
#ifndef BLOCKDELTA_NATIVE_DEVICE_OPEN_DIRECTORIES_H_
#define BLOCKDELTA_NATIVE_DEVICE_OPEN_DIRECTORIES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "native/base/posix.h"

namespace blockdelta {

struct OpenDirectory {
  UniqueFd fd;  // O_PATH.
  uint64_t device;
  uint64_t inode;
};

// Opens the root, which may be a symbolic link, and then each directory in it, which must not be
// one. The failure names the path below `root`.
Result<std::vector<OpenDirectory>> OpenDirectories(const std::string& root,
                                                   const std::vector<std::string>& names);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_OPEN_DIRECTORIES_H_
