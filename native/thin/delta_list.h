// Lists the runs of a delta, or of one device, for printing.
#ifndef BLOCKDELTA_NATIVE_THIN_DELTA_LIST_H_
#define BLOCKDELTA_NATIVE_THIN_DELTA_LIST_H_

#include <cstdint>

#include "native/thin/delta_run.h"
#include "native/thin/thin_scan.h"

namespace blockdelta {

// A call ends when it has read so many nodes, a batch more maybe.
inline constexpr uint64_t kMaxNodesPerList = 65'536;

struct DeltaList {
  DeltaRuns runs;
  // Where the next call goes on.
  uint64_t next_block = 0;
  bool done = false;
  uint64_t nodes = 0;
};

// Runs from `first_block` on, `max_runs` (at least 1) or fewer.
Result<DeltaList> ListDelta(const ThinScanRequest& request, uint64_t first_block, size_t max_runs);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_DELTA_LIST_H_
