// The files of one directory, with their sizes if needed, read in one call: a directory with many
// files costs one stat per file, but no round trip between threads per file.
#ifndef BLOCKDELTA_NATIVE_DEVICE_DIRECTORY_LIST_H_
#define BLOCKDELTA_NATIVE_DEVICE_DIRECTORY_LIST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "native/base/status.h"

namespace blockdelta {

struct ListedFile {
  std::string name;
  uint64_t size_bytes;
  // As st_blocks counts them.
  uint64_t allocated_bytes;
  // False for a directory, a symbolic link (which is not followed) and anything else.
  bool regular;
};

// All entries but "." and "..", in the directory's order. An entry that is removed meanwhile may be
// missing; one that is created meanwhile may be present. Without `sizes`, the sizes are 0 or the
// real ones, and a file is looked at only if its directory lacks its type.
Result<std::vector<ListedFile>> ListDirectory(const std::string& path, bool sizes);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_DIRECTORY_LIST_H_
