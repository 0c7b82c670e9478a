// Walks one mapping tree, two trees, or a tree and a bookmark in the order of virtual blocks and
// reports how the sides differ.
//
// Two trees are compared by data blocks: both exist, so equal numbers mean equal content. The data
// blocks of a bookmark may have been reused, so times are compared instead: a mapping is unchanged
// if it is older than the bookmarked snapshot and the snapshot mapped the block. Knows neither
// bytes nor volumes.
#ifndef BLOCKDELTA_NATIVE_THIN_DELTA_WALK_H_
#define BLOCKDELTA_NATIVE_THIN_DELTA_WALK_H_

#include <cstdint>
#include <optional>

#include "native/base/span.h"
#include "native/thin/bookmark_ranges.h"
#include "native/thin/delta_run.h"
#include "native/thin/tree_pair.h"

namespace blockdelta {

struct DeltaSides {
  // Without a left root there is nothing to compare with.
  TreePair::Roots roots;
  // The mapped blocks of a deleted snapshot, in place of the left tree; may be null.
  BookmarkRanges* bookmark = nullptr;
  // Without a left tree, a mapping of this time or later is kDifferent.
  uint64_t young_from = UINT64_MAX;
  // Also report kSame runs, which walks both trees completely.
  bool include_same = false;
};

class DeltaWalk {
 public:
  // Read() stops after this many runs, plus the rest of the current leaves.
  static constexpr size_t kRunsPerRead = 1024;

  // `reader` and `sides.bookmark` must outlive this.
  DeltaWalk(MappingReader* reader, const DeltaSides& sides)
      : sides_(sides), trees_(reader, sides.roots, sides.include_same) {}

  // Restarts at the first block of `range`, at the cost of one descent.
  Status Seek(KeyRange range);
  // Reads at most one more batch of nodes. Returns the new runs below examined(), possibly none;
  // valid until the next call. After a failure, only Seek() may follow. `likely_runs` is the number
  // of runs that this and later calls will use; no more is read than they are likely to need.
  Result<Span<const DeltaRun>> Read(uint64_t likely_runs = UINT64_MAX);
  // All blocks below this one are examined.
  uint64_t examined() const;
  bool done() const { return examined() == range_.high; }

 private:
  std::optional<uint64_t> LeavesFor(uint64_t runs) const;
  void Merge();
  void MergeLeaves();
  void TakeAlone(unsigned side, uint64_t bound);
  Status MergeBookmark();
  Status TakeBookmarked(uint64_t bound);

  const DeltaSides sides_;
  TreePair trees_;
  KeyRange range_;
  DeltaRuns runs_;
  // Runs returned since Seek().
  uint64_t runs_given_ = 0;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_DELTA_WALK_H_
