// Metadata of a live pool: a block device, read past the page cache, many reads in flight.
//
// The kernel writes a pool's metadata past the device's page cache, so a buffered read may be
// stale. Opened without O_EXCL: the pool holds the device exclusively. A block that is written
// while it is read may come torn: whoever reads what may change (the superblock; nodes that a
// commit has freed meanwhile) meets a wrong checksum, and has to read anew or to give up; nothing
// is read twice here.
#ifndef BLOCKDELTA_NATIVE_THIN_DIRECT_SOURCE_H_
#define BLOCKDELTA_NATIVE_THIN_DIRECT_SOURCE_H_

#include <cstdint>
#include <string>

#include "native/base/unique_fd.h"
#include "native/thin/block_source.h"

namespace blockdelta {

class DirectSource final : public BlockSource {
 public:
  // A block device, or a file on a file system that knows O_DIRECT.
  static Result<DirectSource> Open(const std::string& path);

  const std::string& path() const override { return path_; }
  uint64_t block_count() const override { return block_count_; }
  size_t batch_blocks() const override;
  Status Read(Span<const uint64_t> numbers, uint8_t* out) override;

 private:
  DirectSource(UniqueFd fd, std::string path, uint64_t block_count);

  UniqueFd fd_;
  std::string path_;
  uint64_t block_count_;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_DIRECT_SOURCE_H_
