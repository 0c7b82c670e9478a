// Takes extents from whoever made them, checks them, and cuts them to the size of the file.
//
// The one place where untrusted numbers (from a kernel or a caller) become extents that the rest of
// the scan relies on without further checks.
#ifndef BLOCKDELTA_NATIVE_SCAN_MAP_CHECK_H_
#define BLOCKDELTA_NATIVE_SCAN_MAP_CHECK_H_

#include <cstdint>

#include "native/scan/extent.h"

namespace blockdelta {

enum class MapCheck : uint8_t {
  kTake,     // *extent is sound and lies inside the file.
  kBeyond,   // It begins at or after the end of the file: neither it nor what follows counts.
  kInvalid,  // The map is not ascending, an extent is empty, or a number wraps around.
};

// `previous_end`: where the extent before ended; extents must not begin before it. Cuts *extent to
// end at `size`.
inline MapCheck CheckExtent(uint64_t previous_end, uint64_t size, Extent* extent) {
  if (extent->length == 0 || extent->length > UINT64_MAX - extent->logical ||
      extent->logical < previous_end) {
    return MapCheck::kInvalid;
  }
  if (extent->logical >= size) return MapCheck::kBeyond;
  if (extent->end() > size) extent->length = size - extent->logical;
  if (extent->length > UINT64_MAX - extent->physical) return MapCheck::kInvalid;
  return MapCheck::kTake;
}

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_SCAN_MAP_CHECK_H_
