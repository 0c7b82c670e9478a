// A checked node of a btree in thin metadata.
//
// Format: Linux drivers/md/persistent-data/dm-btree-internal.h, struct disk_node. Reads no blocks.
#ifndef BLOCKDELTA_NATIVE_THIN_BTREE_NODE_H_
#define BLOCKDELTA_NATIVE_THIN_BTREE_NODE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "native/base/status.h"
#include "native/thin/thin_format.h"

namespace blockdelta {

// Key range of a subtree: [low, high).
struct KeyRange {
  uint64_t low = 0;
  uint64_t high = UINT64_MAX;
};

// A view of a block owned by the caller.
class NodeView {
 public:
  NodeView() = default;
  // REQUIRES: CheckNode has accepted the block.
  explicit NodeView(const uint8_t* block);

  bool is_leaf() const { return is_leaf_; }
  uint32_t count() const { return count_; }
  // REQUIRES, here and below: index < count().
  uint64_t key(uint32_t index) const { return ReadLe64(keys_ + size_t{index} * 8); }
  // The first 8 bytes of a leaf's value, or the child of an internal node. REQUIRES: values have 8
  // bytes or more.
  uint64_t value(uint32_t index) const { return ReadLe64(value_bytes(index)); }
  const uint8_t* value_bytes(uint32_t index) const {
    return values_ + size_t{index} * value_bytes_;
  }
  // Key range of child `index`; `own` is the key range of this node.
  KeyRange ChildRange(uint32_t index, KeyRange own) const;
  // Index of the last key that is at most `key`; count() if there is none.
  uint32_t Find(uint64_t key) const;

 private:
  const uint8_t* keys_ = nullptr;
  const uint8_t* values_ = nullptr;
  uint32_t count_ = 0;
  uint32_t value_bytes_ = 0;
  bool is_leaf_ = false;
};

// What CheckNode expects of a node.
struct NodeExpectation {
  uint64_t number;
  KeyRange keys;
  // Bytes of a value in a leaf of this tree.
  uint32_t leaf_value_bytes;
  // Number of metadata blocks; an upper bound for children.
  uint64_t block_count;
};

// Checks the 4096 bytes of a node: checksum, own number, flags, sizes, counts, keys strictly
// ascending and in range, children in bounds (never block 0 or the node itself).
// THIN_METADATA_INVALID otherwise. A leaf may be empty only if its range starts at 0: the single
// node of a new device. Padding is not checked.
Result<NodeView> CheckNode(const uint8_t* block, const NodeExpectation& expected,
                           const std::string& path);

// The bytes of each value that a packed node keeps; the others become zero.
struct ValuePart {
  uint32_t first = 0;
  uint32_t bytes = 8;
};

// A packed node may write and read this many bytes after its end.
inline constexpr size_t kPackedSlack = 7;

// Number of bytes that hold numbers up to `highest`; at least 1.
uint32_t BytesFor(uint64_t highest);
// Maximum size of a packed node whose keys lie in `keys`; at most kMetadataBlockBytes.
size_t MaxPackedBytes(KeyRange keys, ValuePart part);
// Writes the entries of a node to `to`, in few bytes. Returns the end of the packed node. REQUIRES:
// values have 8 bytes.
uint8_t* PackNode(const NodeView& node, ValuePart part, uint8_t* to);
// Writes the entries of a packed node to `block`, without a checksum or a number.
NodeView UnpackNode(const uint8_t* packed, uint8_t* block);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_BTREE_NODE_H_
