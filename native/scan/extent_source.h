// A source of extents: a cursor over the map of one file, read in batches.
#ifndef BLOCKDELTA_NATIVE_SCAN_EXTENT_SOURCE_H_
#define BLOCKDELTA_NATIVE_SCAN_EXTENT_SOURCE_H_

#include <cstddef>
#include <cstdint>

#include "native/base/span.h"
#include "native/base/status.h"
#include "native/scan/extent.h"

namespace blockdelta {

// Maximum number of extents per Read(). FIEMAP is fastest with 256 to 1024 per call.
inline constexpr size_t kMaxBatchExtents = 1024;

// Returns extents in ascending order, without overlaps, not empty, within the size of the file, and
// without wrapping addresses; a source that cannot guarantee this fails with SCAN_MAP_INVALID. Not
// thread-safe.
class ExtentSource {
 public:
  virtual ~ExtentSource() = default;

  // The next Read() starts with the first extent that ends after `offset`; the extent may start
  // before it.
  virtual void Seek(uint64_t offset) = 0;

  // Returns the next extents, at most `wanted` (at least 1); none at the end. Valid until the next
  // call.
  virtual Result<Span<const Extent>> Read(size_t wanted) = 0;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_SCAN_EXTENT_SOURCE_H_
