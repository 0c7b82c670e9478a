// Walks one mapping tree, two, or one and what was kept of a deleted snapshot, in the order of
// virtual blocks, and tells how the sides differ.
//
// Two trees are compared by data blocks: both exist, so an equal number is equal content. Against a
// kept base the data blocks of which may be in use again, times are compared instead: a mapping is
// unchanged if it is older than the base and the base had it. Knows neither bytes nor volumes.
#ifndef BLOCKDELTA_NATIVE_THIN_DELTA_WALK_H_
#define BLOCKDELTA_NATIVE_THIN_DELTA_WALK_H_

#include <cstdint>

#include "native/base/span.h"
#include "native/thin/delta_run.h"
#include "native/thin/kept_ranges.h"
#include "native/thin/tree_pair.h"

namespace blockdelta {

struct DeltaSides {
  // The left tree is absent if there is none to compare with.
  TreePair::Roots roots;
  // What a deleted snapshot had mapped, in place of the left tree; may be null.
  KeptRanges* kept = nullptr;
  // A mapping that is not older is kDifferent, without a left tree.
  uint64_t young_from = UINT64_MAX;
  // Give kSame runs too, which costs the walk of both trees whole.
  bool include_same = false;
};

class DeltaWalk {
 public:
  // Runs that Read() gives at once, and what may be added by the leaves it is at then.
  static constexpr size_t kRunsPerRead = 1024;

  // `reader` and what is kept must outlive this.
  DeltaWalk(MappingReader* reader, const DeltaSides& sides)
      : sides_(sides), trees_(reader, sides.roots, sides.include_same) {}

  // Starts over at the first block of `range`, at the cost of one descent.
  Status Seek(KeyRange range);
  // Reads on for one batch of nodes at most. The runs that were found: those below examined() that
  // were not given yet; maybe none. Valid until the next call. `likely_runs`: how many will be
  // used, this call's and later ones'; no more is read than they are likely to take.
  Result<Span<const DeltaRun>> Read(uint64_t likely_runs = UINT64_MAX);
  // All blocks below are examined.
  uint64_t examined() const;
  bool done() const { return examined() == range_.high; }

 private:
  uint64_t LeavesFor(uint64_t runs) const;
  void Merge();
  void MergeLeaves();
  void TakeAlone(unsigned side, uint64_t bound);
  Status MergeKept();
  Status TakeKept(uint64_t bound);

  const DeltaSides sides_;
  TreePair trees_;
  KeyRange range_;
  DeltaRuns runs_;
  // Since Seek().
  uint64_t runs_given_ = 0;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_DELTA_WALK_H_
