#include "native/thin/delta_walk.h"

#include <algorithm>

#include "native/thin/thin_format.h"

namespace blockdelta {
namespace {

uint64_t DataBlockOf(uint64_t value) { return value >> kMappingTimeBits; }
uint64_t TimeOf(uint64_t value) { return value & kMappingTimeMask; }

// Before so many runs were found, their density says nothing.
constexpr uint64_t kTellingRuns = 64;
// Runs that no estimate is needed for.
constexpr uint64_t kManyRuns = uint64_t{1} << 24;

}  // namespace

Status DeltaWalk::Seek(KeyRange range) {
  runs_given_ = 0;
  range_ = range;
  range_.low = std::min(range.low, range.high);
  if (sides_.kept != nullptr) {
    Status status = sides_.kept->Seek(range_.low);
    if (!status.ok()) return status;
  }
  return trees_.Seek(range_);
}

Result<Span<const DeltaRun>> DeltaWalk::Read(uint64_t likely_runs) {
  runs_.Clear();
  trees_.LimitBatch(LeavesFor(likely_runs));
  Status status = trees_.LoadMore();
  if (status.ok() && sides_.kept != nullptr) {
    status = MergeKept();
  } else if (status.ok()) {
    Merge();
  }
  if (!status.ok()) return status;
  runs_given_ += runs_.size();
  return Span<const DeltaRun>(runs_.runs().data(), runs_.size());
}

// If the runs lie as densely as they did so far.
uint64_t DeltaWalk::LeavesFor(uint64_t runs) const {
  if (runs_given_ < kTellingRuns || runs >= kManyRuns) return UINT64_MAX;
  return runs * trees_.leaves_loaded() / runs_given_;
}

uint64_t DeltaWalk::examined() const {
  uint64_t next = std::min(trees_.Bound(kLeft), trees_.Bound(kRight));
  if (sides_.kept != nullptr) next = std::min(next, sides_.kept->range().low);
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

// Of the first leaf of each side, all entries up to the end of one of them.
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

// Of the first leaf of a side, all entries below `bound`, where the other side may go on.
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

// The tree of the right side against what is kept.
Status DeltaWalk::MergeKept() {
  KeptRanges* const kept = sides_.kept;
  while (runs_.size() < kRunsPerRead && !trees_.NeedsMore()) {
    if (trees_.drained(kRight)) return TakeKept(range_.high);
    NodeQueue& leaves = trees_.leaves(kRight);
    const uint64_t key = leaves.key();
    Status status = TakeKept(key);
    if (!status.ok()) return status;
    // It may have stopped because it found enough.
    if (kept->range().low < key) return Status();
    const bool was_mapped = kept->range().low == key;
    if (!was_mapped || TimeOf(leaves.value()) >= sides_.young_from) {
      runs_.Add(was_mapped ? DeltaKind::kDifferent : DeltaKind::kRightOnly, key, key + 1);
    } else if (sides_.include_same) {
      runs_.Add(DeltaKind::kSame, key, key + 1);
    }
    leaves.Advance();
    if (was_mapped) status = kept->Consume(key + 1);
    if (!status.ok()) return status;
  }
  return Status();
}

// What is kept below `bound`: the right side does not have it.
Status DeltaWalk::TakeKept(uint64_t bound) {
  KeptRanges* const kept = sides_.kept;
  while (kept->range().low < bound && runs_.size() < kRunsPerRead) {
    const uint64_t end = std::min(kept->range().high, bound);
    runs_.Add(DeltaKind::kLeftOnly, kept->range().low, end);
    Status status = kept->Consume(end);
    if (!status.ok()) return status;
  }
  return Status();
}

}  // namespace blockdelta
