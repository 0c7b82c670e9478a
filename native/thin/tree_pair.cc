#include "native/thin/tree_pair.h"

#include <algorithm>
#include <string>
#include <utility>

#include "native/thin/thin_format.h"

namespace blockdelta {
namespace {

// Batches start here and double, so that a small request reads little. The one after many leaves is
// as large as possible: the leaves of a small batch lie far apart on a disk.
constexpr size_t kFirstWindow = 4;
constexpr size_t kManyLeaves = 512;
constexpr size_t kMinInnerWindow = 2;
constexpr unsigned kBothSides = 1u << kLeft | 1u << kRight;

// A subtree shared by both parents: its keys must lie in the range of each parent. In a valid tree
// the ranges may differ where the neighbours do, and the keys lie in the intersection.
Subtree SharedSubtree(const Subtree& left, const Subtree& right) {
  return {left.block,
          {std::max(left.keys.low, right.keys.low), std::min(left.keys.high, right.keys.high)}};
}

}  // namespace

Status TreePair::Seek(KeyRange range) {
  range_ = range;
  next_window_ = kFirstWindow;
  levels_.clear();
  levels_.reserve(kMaxTreeHeight);
  if (range.low >= range.high) return Status();
  if (!include_same_ && roots_.left == roots_.right) return Status();
  Descent descent;
  if (roots_.left.has_value()) descent.next[kLeft] = Subtree{*roots_.left, KeyRange()};
  descent.next[kRight] = Subtree{roots_.right, KeyRange()};
  do {
    RETURN_IF_ERROR(ReadNext(&descent));
  } while (GoDown(&descent));
  return Adopt(&descent);
}

// Reads the next node of each side's path; a node shared by both sides is read once.
Status TreePair::ReadNext(Descent* descent) const {
  uint64_t blocks[kSides];
  size_t count = 0;
  for (const std::optional<Subtree>& next : descent->next) {
    if (!next.has_value() || (count == 1 && blocks[0] == next->block)) continue;
    blocks[count++] = next->block;
  }
  BlockBuffer read(kSides);
  RETURN_IF_ERROR(reader_->Read(Span<const uint64_t>(blocks, count), read.block(0)));
  for (unsigned side = 0; side < kSides; side++) {
    const std::optional<Subtree>& next = descent->next[side];
    if (!next.has_value()) continue;
    if (descent->paths[side].size() == kMaxTreeHeight) {
      return reader_->Invalid(next->block, "expected it at most " + std::to_string(kMaxTreeHeight) +
                                               " levels deep, found it deeper");
    }
    PathNode node = {LevelNode(), BlockBuffer(1)};
    std::copy_n(read.block(next->block == blocks[0] ? 0 : 1), kMetadataBlockBytes,
                node.block.block(0));
    Result<NodeView> view = reader_->Check(*next, node.block.block(0));
    RETURN_IF_ERROR(view);
    node.node = ClipNode(*view, next->keys, range_);
    descent->paths[side].push_back(std::move(node));
  }
  return Status();
}

// False if both sides have reached their leaves, or a shared subtree, which implies equal height.
bool TreePair::GoDown(Descent* descent) const {
  for (unsigned side = 0; side < kSides; side++) {
    std::optional<Subtree>& next = descent->next[side];
    if (!next.has_value()) continue;
    const LevelNode& node = descent->paths[side].back().node;
    next.reset();
    if (node.view.is_leaf() || node.entry >= node.end) continue;
    next = Subtree{node.view.value(node.entry), node.view.ChildRange(node.entry, node.keys)};
  }
  const std::optional<Subtree>& left = descent->next[kLeft];
  const std::optional<Subtree>& right = descent->next[kRight];
  if (left.has_value() && right.has_value() && left->block == right->block && !include_same_) {
    return false;
  }
  for (unsigned side = 0; side < kSides; side++) {
    if (descent->next[side].has_value()) descent->paths[side].back().node.entry++;
  }
  return left.has_value() || right.has_value();
}

// The nodes of the descent become the first nodes of their levels.
Status TreePair::Adopt(Descent* descent) {
  const size_t height = std::max(descent->paths[kLeft].size(), descent->paths[kRight].size());
  for (size_t i = 0; i < height; i++) AddLevel();
  for (unsigned side = 0; side < kSides; side++) {
    std::vector<PathNode>& path = descent->paths[side];
    if (path.empty()) continue;
    // A path that leaves the range ends before its leaf and does not reveal the tree's depth.
    const LevelNode& last = path.back().node;
    if (!last.view.is_leaf() && last.entry >= last.end) continue;
    const size_t above = height - path.size();
    for (size_t i = 0; i < path.size(); i++) {
      RETURN_IF_ERROR(levels_[above + i].Adopt(path[i].node, path[i].block.block(0), side));
    }
  }
  return Status();
}

void TreePair::AddLevel() {
  const ValuePart time = {0, kMappingTimeBits / 8};
  levels_.emplace_back(reader_, range_,
                       roots_.left.has_value() ? reader_->data_block_part() : time);
}

Status TreePair::LoadMore() {
  while (NeedsMore()) {
    if (levels_.back().is_leaf() == false) {
      if (levels_.size() == kMaxTreeHeight) {
        return reader_->Invalid(roots_.right, "expected a tree of at most " +
                                                  std::to_string(kMaxTreeHeight) +
                                                  " levels, found more below this root");
      }
      AddLevel();
    }
    RETURN_IF_ERROR(Refill(levels_.size() - 1));
  }
  return Status();
}

bool TreePair::NeedsMore() const { return HasLeaves() ? NeedsMoreOf(levels_.size()) : !done(); }

uint64_t TreePair::BoundFrom(size_t levels, unsigned side) const {
  for (size_t level = levels; level > 0; level--) {
    const NodeQueue& queue = levels_[level - 1].side(side);
    if (!queue.drained()) return queue.key();
  }
  return kEnd;
}

// Whether the next node of the lowest of these levels is not loaded.
bool TreePair::NeedsMoreOf(size_t levels) const {
  const TreeLevel& level = levels_[levels - 1];
  const uint64_t left = BoundFrom(levels, kLeft);
  const uint64_t right = BoundFrom(levels, kRight);
  if (left == kEnd && right == kEnd) return false;
  return (left <= right && level.side(kLeft).drained()) ||
         (right <= left && level.side(kRight).drained());
}

Status TreePair::Refill(size_t level) {
  const size_t window = NextWindow(level);
  while (levels_[level].wanted() < window && !levels_[level].is_full()) {
    Result<bool> picked = PickInto(level);
    RETURN_IF_ERROR(picked);
    if (!*picked) break;
  }
  return levels_[level].wanted() > 0 ? levels_[level].Load() : Status();
}

// Requests the next subtree of this level. False if there is none.
Result<bool> TreePair::PickInto(size_t level) {
  NodeQueue& left = levels_[level - 1].side(kLeft);
  NodeQueue& right = levels_[level - 1].side(kRight);
  for (;;) {
    if (left.drained() || right.drained()) {
      if (NeedsMoreOf(level)) {
        RETURN_IF_ERROR(Refill(level - 1));
        continue;
      }
      if (left.drained() && right.drained()) return false;
    } else if (left.value() == right.value()) {
      const Subtree shared = SharedSubtree(left.subtree(), right.subtree());
      left.Advance();
      right.Advance();
      if (!include_same_) continue;
      levels_[level].Want(shared, kBothSides);
      return true;
    }
    const bool from_left = !left.drained() && (right.drained() || left.key() <= right.key());
    NodeQueue& queue = from_left ? left : right;
    levels_[level].Want(queue.subtree(), 1u << (from_left ? kLeft : kRight));
    queue.Advance();
    return true;
  }
}

// The size of the next batch; in an inner level about the nodes that the batch of leaves needs.
size_t TreePair::NextWindow(size_t level) {
  const TreeLevel& lowest = levels_.back();
  if (level + 1 < levels_.size()) {
    const uint64_t share =
        levels_[level].loaded() * window_ / std::max<uint64_t>(1, lowest.loaded());
    return std::clamp<uint64_t>(share, kMinInnerWindow, kMaxInnerWindow);
  }
  const size_t most = std::max(reader_->batch_blocks(), kFirstWindow);
  window_ = std::clamp(expected_.value_or(next_window_), kFirstWindow, most);
  next_window_ = next_window_ < kManyLeaves ? std::min(next_window_ * 2, most) : most;
  return window_;
}

}  // namespace blockdelta
