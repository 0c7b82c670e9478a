#include "native/thin/delta_walk.h"

#include <algorithm>

#include "native/thin/thin_format.h"

namespace blockdelta {
namespace {

uint64_t DataBlockOf(uint64_t value) { return value >> kMappingTimeBits; }
uint64_t TimeOf(uint64_t value) { return value & kMappingTimeMask; }

// Minimum number of runs for an estimate of their density.
constexpr uint64_t kMinRunsForEstimate = 64;
// From this many runs on, no estimate is made.
constexpr uint64_t kManyRuns = uint64_t{1} << 24;

}  // namespace

Status DeltaWalk::Seek(KeyRange range) {
  runs_given_ = 0;
  range_ = range;
  range_.low = std::min(range.low, range.high);
  if (sides_.bookmark != nullptr) {
    RETURN_IF_ERROR(sides_.bookmark->Seek(range_.low));
  }
  return trees_.Seek(range_);
}

Result<Span<const DeltaRun>> DeltaWalk::Read(uint64_t likely_runs) {
  runs_.Clear();
  trees_.Expect(LeavesFor(likely_runs));
  Status status = trees_.LoadMore();
  if (status.ok() && sides_.bookmark != nullptr) {
    status = MergeBookmark();
  } else if (status.ok()) {
    Merge();
  }
  if (!status.ok()) return status;
  runs_given_ += runs_.size();
  return Span<const DeltaRun>(runs_.runs().data(), runs_.size());
}

// Estimates the leaves that contain `runs` runs from the density so far.
std::optional<uint64_t> DeltaWalk::LeavesFor(uint64_t runs) const {
  if (runs_given_ < kMinRunsForEstimate || runs >= kManyRuns) return std::nullopt;
  return runs * trees_.leaves_loaded() / runs_given_;
}

uint64_t DeltaWalk::examined() const {
  uint64_t next = std::min(trees_.Bound(kLeft), trees_.Bound(kRight));
  if (sides_.bookmark != nullptr) next = std::min(next, sides_.bookmark->range().low);
  return std::clamp(next, range_.low, range_.high);
}

void DeltaWalk::Merge() {
  while (runs_.size() < kRunsPerRead && !trees_.NeedsMore() && !trees_.done()) {
    if (trees_.drained(kLeft)) {
      TakeAlone(kRight, trees_.Bound(kLeft));
    } else if (trees_.drained(kRight)) {
      TakeAlone(kLeft, trees_.Bound(kRight));
    } else {
      MergeLeaves();
    }
  }
}

// Merges the first leaf of each side up to the end of one of them.
void DeltaWalk::MergeLeaves() {
  NodeQueue& left_leaves = trees_.leaves(kLeft);
  NodeQueue& right_leaves = trees_.leaves(kRight);
  const LevelNode left = left_leaves.front();
  const LevelNode right = right_leaves.front();
  uint32_t i = left.entry;
  uint32_t j = right.entry;
  while (i < left.end && j < right.end) {
    const uint64_t left_key = left.view.key(i);
    const uint64_t right_key = right.view.key(j);
    if (left_key == right_key) {
      const bool same = DataBlockOf(left.view.value(i)) == DataBlockOf(right.view.value(j));
      if (!same) {
        runs_.Add(DeltaKind::kDifferent, left_key, left_key + 1);
      } else if (sides_.include_same) {
        runs_.Add(DeltaKind::kSame, left_key, left_key + 1);
      }
      i++;
      j++;
    } else if (left_key < right_key) {
      runs_.Add(DeltaKind::kLeftOnly, left_key, left_key + 1);
      i++;
    } else {
      runs_.Add(DeltaKind::kRightOnly, right_key, right_key + 1);
      j++;
    }
  }
  left_leaves.AdvanceTo(i);
  right_leaves.AdvanceTo(j);
}

// Takes the entries below `bound` of the first leaf of a side; the other side may continue at
// `bound`.
void DeltaWalk::TakeAlone(unsigned side, uint64_t bound) {
  NodeQueue& leaves = trees_.leaves(side);
  const LevelNode leaf = leaves.front();
  uint32_t i = leaf.entry;
  for (; i < leaf.end && leaf.view.key(i) < bound; i++) {
    const uint64_t key = leaf.view.key(i);
    DeltaKind kind = side == kLeft ? DeltaKind::kLeftOnly : DeltaKind::kRightOnly;
    if (TimeOf(leaf.view.value(i)) >= sides_.young_from) kind = DeltaKind::kDifferent;
    runs_.Add(kind, key, key + 1);
  }
  leaves.AdvanceTo(i);
}

// Merges the tree of the right side with the bookmark.
Status DeltaWalk::MergeBookmark() {
  BookmarkRanges* const bookmark = sides_.bookmark;
  while (runs_.size() < kRunsPerRead && !trees_.NeedsMore()) {
    if (trees_.drained(kRight)) return TakeBookmarked(range_.high);
    NodeQueue& leaves = trees_.leaves(kRight);
    const uint64_t key = leaves.key();
    Status status = TakeBookmarked(key);
    if (!status.ok()) return status;
    // TakeBookmarked also stops when enough runs are found.
    if (bookmark->range().low < key) return Status();
    const bool was_mapped = bookmark->range().low == key;
    if (!was_mapped || TimeOf(leaves.value()) >= sides_.young_from) {
      runs_.Add(was_mapped ? DeltaKind::kDifferent : DeltaKind::kRightOnly, key, key + 1);
    } else if (sides_.include_same) {
      runs_.Add(DeltaKind::kSame, key, key + 1);
    }
    leaves.Advance();
    if (was_mapped) status = bookmark->Consume(key + 1);
    if (!status.ok()) return status;
  }
  return Status();
}

// Takes the blocks of the bookmark below `bound`, which the right side does not map.
Status DeltaWalk::TakeBookmarked(uint64_t bound) {
  BookmarkRanges* const bookmark = sides_.bookmark;
  while (bookmark->range().low < bound && runs_.size() < kRunsPerRead) {
    const uint64_t end = std::min(bookmark->range().high, bound);
    runs_.Add(DeltaKind::kLeftOnly, bookmark->range().low, end);
    RETURN_IF_ERROR(bookmark->Consume(end));
  }
  return Status();
}

}  // namespace blockdelta
