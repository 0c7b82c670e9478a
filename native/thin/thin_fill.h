// Fills messages from a scan of thin devices: what is allocated in one, or what differs from
// another one or from a kept base. Blocks become bytes here, and what is beyond the volume is cut.
#ifndef BLOCKDELTA_NATIVE_THIN_THIN_FILL_H_
#define BLOCKDELTA_NATIVE_THIN_THIN_FILL_H_

#include <cstdint>

#include "native/base/span.h"
#include "native/scan/fill.h"
#include "native/thin/thin_scan.h"

namespace blockdelta {

// A call ends when it has read so many nodes, a batch more maybe: it was about 0.1 s of memory,
// or 1.5 s of a disk.
inline constexpr uint64_t kMaxNodesPerFill = 65'536;

// One stateless call over [limits.offset, size_bytes) of the target.
Result<FillOutcome> FillFromThin(const ThinScanRequest& request, uint64_t size_bytes,
                                 const FillLimits& limits, Span<uint8_t> buffer,
                                 uint64_t max_nodes = kMaxNodesPerFill);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_THIN_FILL_H_
