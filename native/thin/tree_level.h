// One level of two mapping trees that are walked side by side: its nodes in memory, and the
// position of each side.
//
// Reads nodes in batches and checks them. Does not decide which nodes to read or what their entries
// mean.
#ifndef BLOCKDELTA_NATIVE_THIN_TREE_LEVEL_H_
#define BLOCKDELTA_NATIVE_THIN_TREE_LEVEL_H_

#include <cstdint>
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

// Reads nodes of mapping trees and counts them.
class MappingReader {
 public:
  // `source` must outlive this. `data_blocks`: number of data blocks of the pool; 0 if unknown.
  MappingReader(BlockSource* source, uint64_t data_blocks)
      : source_(source), data_blocks_(data_blocks) {}

  // Works like BlockSource::Read().
  Status Read(Span<const uint64_t> blocks, uint8_t* out);
  // Checks a node that was read; a leaf's data blocks must be in bounds. THIN_METADATA_INVALID
  // otherwise.
  Result<NodeView> Check(const Subtree& subtree, const uint8_t* block) const;
  // THIN_METADATA_INVALID about a block.
  Status Invalid(uint64_t block, const std::string& what) const;

  // Number of nodes per read that makes reading efficient.
  size_t batch_blocks() const { return source_->batch_blocks(); }
  uint64_t nodes() const { return nodes_; }

 private:
  BlockSource* const source_;
  const uint64_t data_blocks_;
  uint64_t nodes_ = 0;
};

// A node in memory and its remaining entries: [entry, end).
struct LevelNode {
  NodeView view;
  KeyRange keys;
  uint32_t entry;
  uint32_t end;
  size_t slot;
};

// The nodes of one side of a level in key order, without empty ones.
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
    if (entry == front().end) front_++;
  }

  void Push(const LevelNode& node) {
    if (node.entry < node.end) nodes_.push_back(node);
  }
  // Drops finished nodes.
  void Compact();
  std::vector<LevelNode>& nodes() { return nodes_; }

 private:
  std::vector<LevelNode> nodes_;
  size_t front_ = 0;
};

class TreeLevel {
 public:
  // Only keys in `range` are visited. `reader` must outlive this.
  TreeLevel(MappingReader* reader, KeyRange range) : reader_(reader), range_(range) {}

  NodeQueue& side(unsigned side) { return sides_[side]; }
  const NodeQueue& side(unsigned side) const { return sides_[side]; }
  // Whether its nodes are leaves; nothing before the first node is read.
  std::optional<bool> is_leaf() const { return is_leaf_; }
  // Total number of nodes loaded.
  uint64_t loaded() const { return loaded_; }

  // Requests that Load() read the root of a subtree, for one side or both (`sides` is a bit mask).
  void Want(const Subtree& subtree, unsigned sides) {
    wanted_.push_back({subtree, sides});
    blocks_.push_back(subtree.block);
  }
  size_t wanted() const { return wanted_.size(); }
  // Reads the requested nodes after the unfinished ones.
  Status Load();
  // Adds a node that was already read and checked, unless none of its entries remain; its depth is
  // checked either way. REQUIRES: nothing was loaded.
  Status Adopt(const LevelNode& node, const uint8_t* block, unsigned side);

 private:
  struct Wanted {
    Subtree subtree;
    unsigned sides;
  };

  void MakeRoom();
  Status CheckDepth(const NodeView& view, uint64_t block);

  MappingReader* reader_;
  KeyRange range_;
  std::optional<bool> is_leaf_;
  NodeQueue sides_[kSides];
  BlockBuffer buffer_;
  size_t used_ = 0;
  std::vector<Wanted> wanted_;
  std::vector<uint64_t> blocks_;
  uint64_t loaded_ = 0;
};

// Selects the entries of a node within `range`; for an internal node the child containing
// `range.low` comes first. LevelNode::slot stays 0.
LevelNode ClipNode(const NodeView& view, KeyRange keys, KeyRange range);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_TREE_LEVEL_H_
