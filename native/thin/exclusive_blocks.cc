#include "native/thin/exclusive_blocks.h"

#include <string>

#include "native/thin/metadata_block.h"
#include "native/thin/thin_format.h"
#include "native/thin/tree_walk.h"

namespace blockdelta {
namespace {

// Which of the blocks of a device were seen once, and which more often.
class Sightings {
 public:
  explicit Sightings(uint64_t blocks) : seen_(blocks), shared_(blocks) {}

  uint64_t size() const { return seen_.size(); }
  // Whether this is the first sight of a block. REQUIRES, here and below: block < size().
  bool Add(uint64_t block) {
    const bool is_first = !seen_[block];
    seen_[block] = true;
    if (!is_first) shared_[block] = true;
    return is_first;
  }
  bool IsShared(uint64_t block) const { return shared_[block]; }

 private:
  std::vector<bool> seen_;
  std::vector<bool> shared_;
};

TreeRoot MappingTree(const ThinDevice& device) {
  return {device.root, KeyRange(), kMappingValueBytes};
}

// The nodes and data blocks of all devices. CheckNode has checked that the nodes exist.
Status SeeAll(BlockSource* source, const std::vector<ThinDevice>& devices, Sightings* nodes,
              Sightings* blocks) {
  for (const ThinDevice& device : devices) {
    Status invalid;
    Status status = WalkNodes(
        source, MappingTree(device), [&](uint64_t node) { return nodes->Add(node); },
        [&](uint64_t, const uint8_t* value) {
          const uint64_t block = ReadLe64(value) >> kMappingTimeBits;
          if (block < blocks->size()) {
            blocks->Add(block);
            return true;
          }
          invalid = InvalidBlock(source->path(), device.root,
                                 "expected data blocks below " + std::to_string(blocks->size()) +
                                     " in the tree below it, found " + std::to_string(block));
          return false;
        });
    if (status.ok()) status = std::move(invalid);
    RETURN_IF_ERROR(status);
  }
  return Status();
}

}  // namespace

Result<std::vector<uint64_t>> CountExclusiveBlocks(BlockSource* source,
                                                   const Superblock& superblock,
                                                   const std::vector<ThinDevice>& devices) {
  // The number is from disk, and memory depends on it.
  if (superblock.data_blocks / kBlocksPerBitmap > source->block_count()) {
    return InvalidBlock(source->path(), 0,
                        "expected at most as many data blocks as bitmaps in " +
                            std::to_string(source->block_count()) +
                            " metadata blocks can describe, found " +
                            std::to_string(superblock.data_blocks));
  }
  Sightings nodes(source->block_count());
  Sightings blocks(superblock.data_blocks);
  RETURN_IF_ERROR(SeeAll(source, devices, &nodes, &blocks));
  std::vector<uint64_t> exclusive;
  for (const ThinDevice& device : devices) {
    uint64_t count = 0;
    Status status = WalkNodes(
        source, MappingTree(device), [&](uint64_t node) { return !nodes.IsShared(node); },
        [&](uint64_t, const uint8_t* value) {
          if (!blocks.IsShared(ReadLe64(value) >> kMappingTimeBits)) count++;
          return true;
        });
    RETURN_IF_ERROR(status);
    exclusive.push_back(count);
  }
  return exclusive;
}

}  // namespace blockdelta
