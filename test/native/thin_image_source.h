// Metadata in memory, as a source of blocks that counts what it is asked for.
#ifndef BLOCKDELTA_TEST_NATIVE_THIN_IMAGE_SOURCE_H_
#define BLOCKDELTA_TEST_NATIVE_THIN_IMAGE_SOURCE_H_

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "native/thin/block_source.h"
#include "native/thin/metadata_block.h"
#include "test/native/thin_image.h"

namespace blockdelta::test {

class ThinImageSource final : public BlockSource {
 public:
  explicit ThinImageSource(std::vector<uint8_t> bytes) : bytes_(std::move(bytes)) {}
  explicit ThinImageSource(ThinImage* image)
      : bytes_(image->block(0), image->block(0) + image->block_count() * kMetadataBlockBytes) {}

  const std::string& path() const override { return path_; }
  uint64_t block_count() const override { return bytes_.size() / kMetadataBlockBytes; }
  size_t batch_blocks() const override { return 1; }
  Status Read(Span<const uint64_t> numbers, uint8_t* out) override {
    for (size_t i = 0; i < numbers.size(); i++) {
      reads_++;
      if (numbers[i] >= block_count()) return InvalidBlock(path_, numbers[i], "is not there");
      std::memcpy(out + i * kMetadataBlockBytes, block(numbers[i]), kMetadataBlockBytes);
    }
    return Status();
  }

  uint8_t* block(uint64_t number) { return bytes_.data() + number * kMetadataBlockBytes; }
  void Truncate(uint64_t blocks) { bytes_.resize(blocks * kMetadataBlockBytes); }
  // Blocks read so far.
  uint64_t reads() const { return reads_; }

 private:
  std::string path_ = "memory";
  std::vector<uint8_t> bytes_;
  uint64_t reads_ = 0;
};

}  // namespace blockdelta::test

#endif  // BLOCKDELTA_TEST_NATIVE_THIN_IMAGE_SOURCE_H_
