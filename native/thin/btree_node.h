// One node of a btree of thin metadata, checked before it is believed.
//
// Format: Linux drivers/md/persistent-data/dm-btree-internal.h, struct disk_node. Reads no block.
#ifndef BLOCKDELTA_NATIVE_THIN_BTREE_NODE_H_
#define BLOCKDELTA_NATIVE_THIN_BTREE_NODE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "native/base/status.h"
#include "native/thin/thin_format.h"

namespace blockdelta {

// Keys of a subtree: [low, high).
struct KeyRange {
  uint64_t low = 0;
  uint64_t high = UINT64_MAX;
};

// A view of a block that somebody else owns.
class NodeView {
 public:
  NodeView() = default;
  // REQUIRES: CheckNode has found the block sound.
  explicit NodeView(const uint8_t* block);

  bool is_leaf() const { return is_leaf_; }
  uint32_t count() const { return count_; }
  // REQUIRES, here and below: index < count().
  uint64_t key(uint32_t index) const { return ReadLe64(keys_ + size_t{index} * 8); }
  // The first 8 bytes of a value of a leaf; the child of an internal node.
  // REQUIRES: values have 8 bytes or more.
  uint64_t value(uint32_t index) const { return ReadLe64(value_bytes(index)); }
  const uint8_t* value_bytes(uint32_t index) const {
    return values_ + size_t{index} * value_bytes_;
  }
  // Range of keys below child `index` of a node that has the range `own`.
  KeyRange ChildRange(uint32_t index, KeyRange own) const;
  // Index of the last key that is not above `key`; count() if there is none.
  uint32_t Find(uint64_t key) const;

 private:
  const uint8_t* keys_ = nullptr;
  const uint8_t* values_ = nullptr;
  uint32_t count_ = 0;
  uint32_t value_bytes_ = 0;
  bool is_leaf_ = false;
};

// What a node has to be.
struct NodeExpectation {
  uint64_t number;
  KeyRange keys;
  // Bytes of a value in a leaf of this tree.
  uint32_t leaf_value_bytes;
  // Blocks the metadata has: children are below it.
  uint64_t block_count;
};

// A view of 4096 bytes that are a sound node of this kind in this place, or THIN_METADATA_INVALID:
// checksum, own number, flags, sizes, counts, keys strictly rising and in range, children in bounds
// (block 0 is never one, nor is the node itself). A leaf may be empty
// only where the range begins at 0: it is the one node of a new device. Padding is not looked at.
Result<NodeView> CheckNode(const uint8_t* block, const NodeExpectation& expected,
                           const std::string& path);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_BTREE_NODE_H_
