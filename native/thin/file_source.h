// Thin metadata in a regular file or on a block device.
#ifndef BLOCKDELTA_NATIVE_THIN_FILE_SOURCE_H_
#define BLOCKDELTA_NATIVE_THIN_FILE_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "native/base/unique_fd.h"
#include "native/thin/block_source.h"

namespace blockdelta {

// The part common to sources that read a descriptor.
class DescriptorSource : public BlockSource {
 public:
  const std::string& path() const final { return path_; }
  uint64_t block_count() const final { return block_count_; }

 protected:
  DescriptorSource(UniqueFd fd, std::string path, uint64_t block_count)
      : fd_(std::move(fd)), path_(std::move(path)), block_count_(block_count) {}

  UniqueFd fd_;
  std::string path_;
  uint64_t block_count_;
};

// Metadata in a regular file, read through the page cache.
//
// Not for block devices, whose metadata the kernel writes past the page cache. Uses pread although
// mmap would save a copy: a file truncated during the read is then a failure instead of a SIGBUS,
// and the memory of the process does not grow with the file.
class FileSource final : public DescriptorSource {
 public:
  static Result<FileSource> Open(const std::string& path);

  size_t batch_blocks() const override;
  Status Read(Span<const uint64_t> numbers, uint8_t* out) override;

 private:
  using DescriptorSource::DescriptorSource;
};

// Metadata of a live pool: a block device, read with O_DIRECT and many reads in flight.
//
// The kernel writes a pool's metadata past the device's page cache, so a buffered read may be
// stale. Opened without O_EXCL: the pool holds the device exclusively. A block written during the
// read may be torn; then its checksum is wrong. This class reads nothing twice: a caller that reads
// a block that may change (the superblock, or nodes freed by a commit) retries or gives up.
class DirectSource final : public DescriptorSource {
 public:
  // Opens a block device, or a file on a file system with O_DIRECT.
  static Result<DirectSource> Open(const std::string& path);

  size_t batch_blocks() const override;
  Status Read(Span<const uint64_t> numbers, uint8_t* out) override;

 private:
  using DescriptorSource::DescriptorSource;
};

// A DirectSource for a block device, a FileSource for a regular file.
Result<std::unique_ptr<BlockSource>> OpenBlockSource(const std::string& path);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_FILE_SOURCE_H_
