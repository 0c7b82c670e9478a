// Lists the runs of a delta, or of one device, for printing.
#ifndef BLOCKDELTA_NATIVE_THIN_DELTA_LIST_H_
#define BLOCKDELTA_NATIVE_THIN_DELTA_LIST_H_

#include <cstdint>

#include "native/thin/delta_run.h"
#include "native/thin/thin_scan.h"

namespace blockdelta {

// A call stops after this many nodes, plus at most one batch.
inline constexpr uint64_t kMaxNodesPerList = 65'536;

struct DeltaList {
  DeltaRuns runs;
  // `first_block` of the next call.
  uint64_t next_block = 0;
  bool done = false;
  uint64_t nodes = 0;
};

// Lists at most `max_runs` (at least 1) runs from `first_block` on.
Result<DeltaList> ListDelta(const ThinScanRequest& request, uint64_t first_block, size_t max_runs);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_DELTA_LIST_H_
