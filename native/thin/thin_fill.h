// Fills messages from a scan of thin devices: the allocated blocks of one device, or its
// differences from another device or a bookmark. Converts blocks to bytes, clipped to the volume.
#ifndef BLOCKDELTA_NATIVE_THIN_THIN_FILL_H_
#define BLOCKDELTA_NATIVE_THIN_THIN_FILL_H_

#include <cstdint>

#include "native/base/span.h"
#include "native/scan/fill.h"
#include "native/thin/thin_scan.h"

namespace blockdelta {

// A call stops after this many nodes, plus at most one batch: about 0.1 s in memory, or 1.5 s on a
// disk.
inline constexpr uint64_t kMaxNodesPerFill = 65'536;

// One stateless call over [limits.offset, size_bytes) of the target.
Result<FillOutcome> FillFromThin(const ThinScanRequest& request, uint64_t size_bytes,
                                 const FillLimits& limits, Span<uint8_t> buffer,
                                 uint64_t max_nodes = kMaxNodesPerFill);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_THIN_FILL_H_
