// Iterates over the leaves of two mapping trees, or of one, in key order, and skips, without a
// read, the subtrees that both trees share.
//
// The kernel copies a node before it writes to it whenever another tree shares it, so the same
// block in both trees means the same mappings below it. The trees are walked level by level from
// the top down, in windows: the roots of the next subtrees of a level are compared by block number,
// and those that differ are read a window at a time. Trees of different height are aligned by their
// leaves. Knows nothing of the meaning of a mapping.
#ifndef BLOCKDELTA_NATIVE_THIN_TREE_PAIR_H_
#define BLOCKDELTA_NATIVE_THIN_TREE_PAIR_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "native/thin/tree_level.h"

namespace blockdelta {

class TreePair {
 public:
  struct Roots {
    // Absent for a tree without mappings.
    std::optional<uint64_t> left;
    uint64_t right;
  };

  // Maximum number of nodes of an inner level in memory: 2 MiB.
  static constexpr size_t kMaxInnerWindow = 512;

  // With `include_same`, shared nodes are read too (once), checked against their position in each
  // tree, and returned for both sides. `reader` must outlive this.
  TreePair(MappingReader* reader, Roots roots, bool include_same)
      : reader_(reader), roots_(roots), include_same_(include_same) {}

  // Descends to the first keys of `range`; nothing outside it is visited.
  Status Seek(KeyRange range);

  // Loads leaves until the smallest remaining key is in a loaded leaf, or no key remains. Loaded
  // leaves that are not finished stay. REQUIRES: Seek() succeeded.
  Status LoadMore();
  // Sets the number of leaves that are likely to be used, from here on. Without one, batches grow.
  void Expect(std::optional<uint64_t> leaves) { expected_ = leaves; }
  // Leaves loaded since Seek().
  uint64_t leaves_loaded() const { return HasLeaves() ? levels_.back().loaded() : 0; }
  // Whether LoadMore() would load anything.
  bool NeedsMore() const;
  // Whether no key remains.
  bool done() const { return Bound(kLeft) == kEnd && Bound(kRight) == kEnd; }

  // Whether a side has no unfinished loaded leaf.
  bool drained(unsigned side) const { return !HasLeaves() || levels_.back().side(side).drained(); }
  // Their values may lack the times of mappings, or those of a single tree the data blocks.
  // REQUIRES: at least one side is not drained().
  NodeQueue& leaves(unsigned side) { return levels_.back().side(side); }
  // The next key of this side if it is loaded, otherwise a lower bound for it.
  uint64_t Bound(unsigned side) const { return BoundFrom(levels_.size(), side); }

  static constexpr uint64_t kEnd = UINT64_MAX;

 private:
  struct PathNode {
    LevelNode node;
    BlockBuffer block;
  };
  struct Descent {
    std::vector<PathNode> paths[kSides];
    std::optional<Subtree> next[kSides];
  };

  Status ReadNext(Descent* descent) const;
  bool GoDown(Descent* descent) const;
  Status Adopt(Descent* descent);
  void AddLevel();

  bool HasLeaves() const { return !levels_.empty() && levels_.back().is_leaf() == true; }
  uint64_t BoundFrom(size_t levels, unsigned side) const;
  bool NeedsMoreOf(size_t levels) const;
  Status Refill(size_t level);
  Result<bool> PickInto(size_t level);
  size_t NextWindow(size_t level);

  MappingReader* const reader_;
  const Roots roots_;
  const bool include_same_;
  KeyRange range_;
  // From the top down; the last one may be the leaf level.
  std::vector<TreeLevel> levels_;
  // Number of leaves in the current batch, and in the next one if no number is expected.
  size_t window_ = 0;
  size_t next_window_ = 0;
  std::optional<uint64_t> expected_;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_TREE_PAIR_H_
