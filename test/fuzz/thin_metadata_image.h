// Metadata made of a fuzzer's input: a small sound image, and changes to it.
#ifndef BLOCKDELTA_TEST_FUZZ_THIN_METADATA_IMAGE_H_
#define BLOCKDELTA_TEST_FUZZ_THIN_METADATA_IMAGE_H_

#include <cstdint>
#include <cstring>
#include <set>
#include <vector>

#include "native/thin/block_source.h"
#include "native/thin/metadata_block.h"
#include "native/thin/thin_format.h"
#include "test/native/mapping_trees.h"
#include "test/native/thin_scenario.h"

namespace blockdelta::test {

// Reads the input as numbers; zeros after its end.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}

  bool empty() const { return at_ == end_; }
  uint64_t Byte() { return at_ == end_ ? 0 : *at_++; }
  // Small numbers mostly, sometimes two bytes or any 64 bits.
  uint64_t Number() {
    const uint64_t first = Byte();
    if (first < 0xE0) return first;
    uint64_t value = 0;
    for (int i = first < 0xF0 ? 6 : 0; i < 8; i++) value = value << 8 | Byte();
    return value;
  }

 private:
  const uint8_t* at_;
  const uint8_t* end_;
};

using ThinImageBytes = std::vector<uint8_t>;

// As the generator makes it: full-sized nodes, snapshots, discards, a held copy.
inline ThinImageBytes MakePoolImage() {
  ThinScenario scenario;
  scenario.mapped = 200;
  scenario.density = 0.6;
  scenario.changed = 0.2;
  scenario.discarded = 0.2;
  scenario.added = 0.2;
  scenario.metadata_snapshot = true;
  scenario.changed_after = 5;
  scenario.empty_device = true;
  scenario.metadata_blocks = 40;
  ThinPool pool = MakeThinPool(scenario);
  return ThinImageBytes(pool.image.block(0), pool.image.block(0) + 40 * kMetadataBlockBytes);
}

// Nodes of few entries, so that trees of some blocks are high.
inline ThinImageBytes MakeHighImage() {
  MappingTrees trees(4);
  std::vector<TreeDevice> devices;
  uint64_t root = trees.Empty();
  for (uint32_t device = 0; device < 3; device++) {
    for (uint64_t i = 0; i < (device == 0 ? 24 : 3); i++) {
      const uint64_t key = (i * 7 + device * 5) % 30;
      root = device == 1 && i == 2 ? trees.Remove(root, key)
                                   : trees.Set(root, key, (device * 30 + i) << 24 | device);
    }
    devices.push_back({device + 1, root, device});
    trees.Share();
  }
  return trees.PoolImage(devices);
}

// What a block of it is, by its place: block 0 and the held copy are superblocks.
inline void SealBlock(ThinImageBytes* image, uint64_t number) {
  uint8_t* const block = &(*image)[number * kMetadataBlockBytes];
  const bool is_superblock =
      ReadLe64(block + superblock_format::kMagic) == superblock_format::kMagicNumber;
  const uint32_t checksum =
      ChecksumOf(block, is_superblock || number == 0 ? kSuperblockSalt : kNodeSalt);
  std::memcpy(block, &checksum, sizeof(checksum));
}

inline const ThinImageBytes& SoundImage(bool is_high) {
  static const ThinImageBytes pool = MakePoolImage();
  static const ThinImageBytes high = MakeHighImage();
  return is_high ? high : pool;
}

class ImageChanges {
 public:
  // Changed blocks get their right checksums if `seals`.
  ImageChanges(FuzzInput* input, bool seals) : input_(*input), seals_(seals) {
    const uint64_t head = input_.Byte();
    image_ = SoundImage((head & 1) != 0);
    if ((head & 2) != 0) image_.resize((1 + input_.Byte() % blocks()) * kMetadataBlockBytes);
    for (uint64_t left = head >> 2 & 15; left > 0; left--) Change();
    for (const uint64_t number : changed_) {
      if (seals_) SealBlock(&image_, number);
    }
  }

  const ThinImageBytes& image() const { return image_; }

 private:
  uint64_t blocks() const { return image_.size() / kMetadataBlockBytes; }
  uint8_t* block(uint64_t number) { return &image_[number * kMetadataBlockBytes]; }

  void Write(size_t offset, uint64_t value, size_t bytes) {
    std::memcpy(block(at_) + offset % (kMetadataBlockBytes - 8), &value, bytes);
  }

  void Change() {
    constexpr size_t kHeader[] = {4, 8, 16, 20, 24, 0};
    const uint64_t what = input_.Byte();
    at_ = input_.Byte() % blocks();
    changed_.insert(at_);
    const uint64_t room = ReadLe32(block(at_) + node_format::kMaxEntries);
    switch (what % 6) {
      case 0:
        return Write(kHeader[input_.Byte() % 6], input_.Number(), 4);
      case 1:  // A key.
        return Write(32 + 8 * input_.Byte(), input_.Number(), 8);
      case 2:  // A child, or the data block of a mapping.
        return Write(32 + 8 * (room + input_.Byte()), input_.Number() << (what & 8 ? 24 : 0), 8);
      case 3:
        return Write(input_.Number(), input_.Byte(), 1);
      case 4: {
        const uint64_t from = input_.Byte() % blocks();
        if (from != at_) std::memcpy(block(at_), block(from), kMetadataBlockBytes);
        return Write(kOwnNumberOffset, at_, 8);
      }
      default:
        changed_.insert(0);
        at_ = 0;
        return Write(32 + 4 * (input_.Byte() % 83), input_.Number(), (what & 8) != 0 ? 8 : 4);
    }
  }

  FuzzInput& input_;
  const bool seals_;
  ThinImageBytes image_;
  std::set<uint64_t> changed_;
  uint64_t at_ = 0;
};

}  // namespace blockdelta::test

#endif  // BLOCKDELTA_TEST_FUZZ_THIN_METADATA_IMAGE_H_
