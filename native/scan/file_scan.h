// Scans snapshot files: opens and checks them, walks their extent maps, and repeats windows whose
// extents may have moved.
#ifndef BLOCKDELTA_NATIVE_SCAN_FILE_SCAN_H_
#define BLOCKDELTA_NATIVE_SCAN_FILE_SCAN_H_

#include <optional>
#include <vector>

#include "native/scan/extent_source.h"
#include "native/scan/fill.h"
#include "native/scan/snapshot_file.h"

namespace blockdelta {

// Stored maps that a delta reads or makes. Only for file systems that never move extents of
// immutable files (XFS): SCAN_UNSUPPORTED on others.
struct StoredMaps {
  // The source that is read in place of the base's map. The base's file is still checked.
  ExtentSource* base = nullptr;
  // Receives the extents of the target that are read; some may lie behind the end of the chunk.
  std::vector<Extent>* target = nullptr;

  bool any() const { return base != nullptr || target != nullptr; }
};

// Fills one chunk. Without a base, lists the allocated ranges of the target. Failures:
// SCAN_REPLACED, SCAN_MUTABLE, SCAN_UNSUPPORTED, SCAN_MAP_INVALID, errnos.
Result<FillOutcome> FillFromFiles(SnapshotIdentity target, std::optional<SnapshotIdentity> base,
                                  const FillLimits& limits, Span<uint8_t> buffer,
                                  const StoredMaps& maps = {});

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_SCAN_FILE_SCAN_H_
