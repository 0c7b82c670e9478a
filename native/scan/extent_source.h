// Where extents come from: a cursor over the map of one file, read in batches.
#ifndef BLOCKDELTA_NATIVE_SCAN_EXTENT_SOURCE_H_
#define BLOCKDELTA_NATIVE_SCAN_EXTENT_SOURCE_H_

#include <cstddef>
#include <cstdint>

#include "native/base/span.h"
#include "native/base/status.h"
#include "native/scan/extent.h"

namespace blockdelta {

// No source returns more extents at once. FIEMAP is fastest with 256 to 1024 a call.
inline constexpr size_t kMaxBatchExtents = 1024;

// Extents come in ascending order, without overlaps, none empty, none beyond the size of the file,
// none whose address range wraps around: a source that cannot keep this fails with
// SCAN_MAP_INVALID. Not thread-safe.
class ExtentSource {
 public:
  virtual ~ExtentSource() = default;

  // The next Read() begins with the first extent that ends after `offset`; it may begin before it.
  virtual void Seek(uint64_t offset) = 0;

  // The next extents, `wanted` (at least 1) or fewer; none: there are no more. Valid until the next
  // call.
  virtual Result<Span<const Extent>> Read(size_t wanted) = 0;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_SCAN_EXTENT_SOURCE_H_
