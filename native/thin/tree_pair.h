// Goes through the leaves of two mapping trees, or of one, in the order of their keys, and leaves
// out unread what both trees share.
//
// The kernel copies a node before it writes to it whenever another tree has it too, so the same
// block in both trees means the same mappings below it. The trees are walked level by level, from
// the top down, in windows: of what is next on a level the roots of subtrees are compared by block
// number, and of the others as many are read at once as a window holds. Trees of different height
// are aligned by their leaves. Knows nothing of what a mapping means.
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
    // Absent: a tree without mappings.
    std::optional<uint64_t> left;
    uint64_t right;
  };

  // Nodes in memory at most, 16 MiB of leaves and 2 MiB of each level above them.
  static constexpr size_t kMaxWindow = 4096;
  static constexpr size_t kMaxInnerWindow = 512;

  // With `include_same`, what both share is read too (once), checked against the place that it has
  // in each tree, and given to both sides. `reader` must outlive this.
  TreePair(MappingReader* reader, Roots roots, bool include_same)
      : reader_(reader), roots_(roots), include_same_(include_same) {}

  // Descends to the first keys of `range`; nothing outside of it will be seen.
  Status Seek(KeyRange range);

  // Loads leaves until the least key that is left is in a loaded one, or there is none. Loaded
  // leaves that are not used up stay. REQUIRES: Seek() went well.
  Status LoadMore();
  // Batches of leaves are no larger from now on, but for the smallest.
  void LimitBatch(uint64_t leaves) { limit_ = leaves; }
  // Leaves loaded since Seek().
  uint64_t leaves_loaded() const { return HasLeaves() ? levels_.back().loaded() : 0; }
  // Whether LoadMore() has something to do.
  bool NeedsMore() const;
  // No key is left.
  bool done() const { return Bound(kLeft) == kEnd && Bound(kRight) == kEnd; }

  // Whether a side has no loaded leaf that is left.
  bool drained(unsigned side) const { return !HasLeaves() || levels_.back().side(side).drained(); }
  // REQUIRES: not drained(), of one side at least.
  NodeQueue& leaves(unsigned side) { return levels_.back().side(side); }
  // The next key of this side, if it is loaded; otherwise a key that no key left is below.
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
  // From the top down; the last one may be that of the leaves.
  std::vector<TreeLevel> levels_;
  // How many leaves the next batch has.
  size_t window_ = 0;
  uint64_t limit_ = UINT64_MAX;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_TREE_PAIR_H_
