// Metadata in a regular file, read through the page cache.
//
// Not for block devices: the kernel writes a pool's metadata past their page cache. By pread and
// not by mmap, although that copies: a file that is cut off while it is read is a failure then and
// no SIGBUS, and the memory of the process does not grow with what was read.
#ifndef BLOCKDELTA_NATIVE_THIN_FILE_SOURCE_H_
#define BLOCKDELTA_NATIVE_THIN_FILE_SOURCE_H_

#include <cstdint>
#include <string>

#include "native/base/unique_fd.h"
#include "native/thin/block_source.h"

namespace blockdelta {

class FileSource final : public BlockSource {
 public:
  static Result<FileSource> Open(const std::string& path);

  const std::string& path() const override { return path_; }
  uint64_t block_count() const override { return block_count_; }
  size_t batch_blocks() const override;
  Status Read(Span<const uint64_t> numbers, uint8_t* out) override;

 private:
  FileSource(UniqueFd fd, std::string path, uint64_t block_count);

  UniqueFd fd_;
  std::string path_;
  uint64_t block_count_;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_FILE_SOURCE_H_
