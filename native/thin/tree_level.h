// One level of two mapping trees that are walked side by side: its nodes in memory, and the
// position of each side.
//
// Reads nodes in batches and checks them. Does not decide which nodes to read or what their entries
// mean.
#ifndef BLOCKDELTA_NATIVE_THIN_TREE_LEVEL_H_
#define BLOCKDELTA_NATIVE_THIN_TREE_LEVEL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "native/thin/block_source.h"
#include "native/thin/btree_node.h"

namespace blockdelta {

// The two compared trees; a single tree is the right side.
inline constexpr unsigned kLeft = 0;
inline constexpr unsigned kRight = 1;
inline constexpr unsigned kSides = 2;

// A subtree: its root block and key range.
struct Subtree {
  uint64_t block;
  KeyRange keys;
};

// What one batch of nodes may occupy in memory.
struct BatchLimits {
  // Number of nodes as they are on disk. The nodes of a larger batch are packed.
  size_t raw_nodes = 512;
  // Bytes of packed nodes, with what a level keeps beside each; exceeded by at most one node.
  size_t packed_bytes = size_t{32} << 20;
};

// Reads nodes of mapping trees and counts them.
class MappingReader {
 public:
  // `source` must outlive this. `data_blocks`: number of data blocks of the pool; 0 if unknown.
  MappingReader(BlockSource* source, uint64_t data_blocks, BatchLimits limits = BatchLimits())
      : source_(source), data_blocks_(data_blocks), limits_(limits) {}

  // Works like BlockSource::Read().
  Status Read(Span<const uint64_t> blocks, uint8_t* out);
  // Checks a node that was read; a leaf's data blocks must be in bounds. THIN_METADATA_INVALID
  // otherwise.
  Result<NodeView> Check(const Subtree& subtree, const uint8_t* block) const;
  // THIN_METADATA_INVALID about a block.
  Status Invalid(uint64_t block, const std::string& what) const;

  // As that of the source.
  size_t batch_blocks() const { return source_->batch_blocks(); }
  const BatchLimits& limits() const { return limits_; }
  // The bytes of a mapping that contain its data block.
  ValuePart data_block_part() const;
  uint64_t nodes() const { return nodes_; }

 private:
  BlockSource* const source_;
  const uint64_t data_blocks_;
  const BatchLimits limits_;
  uint64_t nodes_ = 0;
};

// A node in memory and its remaining entries: [entry, end).
struct LevelNode {
  // Of a packed node, valid while it is at the front of its queue.
  NodeView view;
  KeyRange keys;
  uint32_t entry;
  uint32_t end;
  // The node packed, or null.
  const uint8_t* packed;
};

// The nodes of one side of a level in key order.
class NodeQueue {
 public:
  bool drained() const { return front_ == nodes_.size(); }
  // REQUIRES, here and below: !drained().
  LevelNode& front() { return nodes_[front_]; }
  const LevelNode& front() const { return nodes_[front_]; }
  uint64_t key() const { return front().view.key(front().entry); }
  uint64_t value() const { return front().view.value(front().entry); }
  // The subtree of the current entry of an internal node.
  Subtree subtree() const {
    return {value(), front().view.ChildRange(front().entry, front().keys)};
  }
  // Skips the current entry.
  void Advance() { AdvanceTo(front().entry + 1); }
  void AdvanceTo(uint32_t entry) {
    front().entry = entry;
    if (entry == front().end) SkipFinished();
  }
  // Moves on to the first node with entries.
  void SkipFinished();

  void Push(const LevelNode& node) { nodes_.push_back(node); }
  // Drops finished nodes.
  void Compact();
  std::vector<LevelNode>& nodes() { return nodes_; }

 private:
  std::vector<LevelNode> nodes_;
  size_t front_ = 0;
  // The front, if it is packed.
  BlockBuffer unpacked_;
};

class TreeLevel {
 public:
  // Only keys in `range` are visited. Leaves may have only `part` of their values. `reader` must
  // outlive this.
  TreeLevel(MappingReader* reader, KeyRange range, ValuePart part)
      : reader_(reader), range_(range), part_(part) {}

  NodeQueue& side(unsigned side) { return sides_[side]; }
  const NodeQueue& side(unsigned side) const { return sides_[side]; }
  // Whether its nodes are leaves; nothing before the first node is read.
  std::optional<bool> is_leaf() const { return is_leaf_; }
  // Total number of nodes loaded.
  uint64_t loaded() const { return loaded_; }

  // Requests that Load() read the root of a subtree, for one side or both (`sides` is a bit mask).
  void Want(const Subtree& subtree, unsigned sides);
  size_t wanted() const { return wanted_.size(); }
  // Whether no more nodes fit into a batch.
  bool is_full() const { return packed_bytes_ >= reader_->limits().packed_bytes; }
  // Reads the requested nodes in the order of their blocks, and queues them after the unfinished
  // ones. After a failure, this level is unusable.
  Status Load();
  // Adds a node that was already read and checked, unless none of its entries remain; its depth is
  // checked either way. REQUIRES: nothing was loaded.
  Status Adopt(const LevelNode& node, const uint8_t* block, unsigned side);

 private:
  struct Wanted {
    Subtree subtree;
    unsigned sides;
    // Where the node is in the queue of each side that has it.
    uint32_t places[kSides];
  };

  ValuePart part() const { return is_leaf_ == true ? part_ : ValuePart(); }
  void KeepUnfinished();
  Status LoadBatch(Span<const Wanted> batch, uint8_t** packed);
  Status CheckDepth(const NodeView& view, uint64_t block);

  MappingReader* reader_;
  KeyRange range_;
  ValuePart part_;
  std::optional<bool> is_leaf_;
  NodeQueue sides_[kSides];
  // The memory of the last batch, as on disk or packed, and of the unfinished nodes before it.
  BlockBuffer raw_;
  std::unique_ptr<uint8_t[]> packed_;
  std::vector<uint8_t> kept_;
  std::vector<Wanted> wanted_;
  // Maximum size of the wanted nodes.
  size_t packed_bytes_ = 0;
  uint64_t loaded_ = 0;
};

// Selects the entries of a node within `range`; for an internal node the child containing
// `range.low` comes first.
LevelNode ClipNode(const NodeView& view, KeyRange keys, KeyRange range);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_TREE_LEVEL_H_
