// Metadata in memory, as a source of blocks that counts what it is asked for.
#ifndef BLOCKDELTA_TEST_NATIVE_THIN_IMAGE_SOURCE_H_
#define BLOCKDELTA_TEST_NATIVE_THIN_IMAGE_SOURCE_H_

#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "native/thin/block_source.h"
#include "native/thin/metadata_block.h"
#include "test/native/thin_image.h"

namespace blockdelta::test {

class ThinImageSource final : public BlockSource {
 public:
  explicit ThinImageSource(std::vector<uint8_t> bytes, size_t batch_blocks = 1)
      : bytes_(std::move(bytes)), batch_blocks_(batch_blocks) {}

  const std::string& path() const override { return path_; }
  uint64_t block_count() const override { return bytes_.size() / kMetadataBlockBytes; }
  size_t batch_blocks() const override { return batch_blocks_; }
  Status Read(Span<const uint64_t> numbers, uint8_t* out) override {
    for (size_t i = 0; i < numbers.size(); i++) {
      reads_++;
      reads_of_[numbers[i]]++;
      if (numbers[i] >= block_count()) return InvalidBlock(path_, numbers[i], "is not there");
      std::memcpy(out + i * kMetadataBlockBytes, block(numbers[i]), kMetadataBlockBytes);
      if (after_read_) after_read_(out + i * kMetadataBlockBytes);
    }
    return Status();
  }

  const std::vector<uint8_t>& bytes() const { return bytes_; }
  uint8_t* block(uint64_t number) { return bytes_.data() + number * kMetadataBlockBytes; }
  DiskNode* node(uint64_t number) { return DiskNode::At(block(number)); }
  void Truncate(uint64_t blocks) { bytes_.resize(blocks * kMetadataBlockBytes); }
  // Called with what each block is read as: may change it, or the image.
  void AfterRead(std::function<void(uint8_t*)> after_read) { after_read_ = std::move(after_read); }
  // Blocks read so far, and how often each.
  uint64_t reads() const { return reads_; }
  const std::map<uint64_t, unsigned>& reads_of() const { return reads_of_; }

 private:
  std::string path_ = "memory";
  std::vector<uint8_t> bytes_;
  size_t batch_blocks_ = 1;
  std::function<void(uint8_t*)> after_read_;
  uint64_t reads_ = 0;
  std::map<uint64_t, unsigned> reads_of_;
};

}  // namespace blockdelta::test

#endif  // BLOCKDELTA_TEST_NATIVE_THIN_IMAGE_SOURCE_H_
