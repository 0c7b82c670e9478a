// Scans snapshot files: opens and checks them, walks their extent maps, and repeats windows whose
// extents may have moved.
#ifndef BLOCKDELTA_NATIVE_SCAN_FILE_SCAN_H_
#define BLOCKDELTA_NATIVE_SCAN_FILE_SCAN_H_

#include <optional>

#include "native/scan/fill.h"
#include "native/scan/snapshot_file.h"

namespace blockdelta {

// Fills one chunk. Without a base: the allocated ranges of the target. Failures: SCAN_REPLACED,
// SCAN_MUTABLE, SCAN_UNSUPPORTED, SCAN_MAP_INVALID, errnos.
Result<FillOutcome> FillFromFiles(SnapshotIdentity target, std::optional<SnapshotIdentity> base,
                                  const FillLimits& limits, Span<uint8_t> buffer);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_SCAN_FILE_SCAN_H_
