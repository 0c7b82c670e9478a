// An extent of a file's map, and what it proves about the bytes it maps.
//
// The rule that makes changed-block lists sound is here and nowhere else: whatever is not proved to
// be zeros or plain data at a known address is opaque, and opaque data never equals anything.
#ifndef BLOCKDELTA_NATIVE_SCAN_EXTENT_H_
#define BLOCKDELTA_NATIVE_SCAN_EXTENT_H_

#include <linux/fiemap.h>

#include <cstdint>

namespace blockdelta {

// Bytes [logical, logical + length) of a file at address `physical`. `flags` are FIEMAP_EXTENT_*.
struct Extent {
  uint64_t logical;
  uint64_t physical;
  uint64_t length;
  uint32_t flags;
  // 0: `physical` is a device address. Otherwise it is an offset into the content of the compressed
  // extent that this value identifies; equal addresses of different origins prove nothing.
  uint64_t origin = 0;

  uint64_t end() const { return logical + length; }
};

enum class ExtentClass : uint8_t {
  kZero,    // All bytes read as zero.
  kOpaque,  // Unknown bytes; the address proves nothing.
  kData,    // Unknown bytes that are determined by their address.
};

// Extents whose physical address does not determine their bytes. ENCODED matters most: btrfs
// reports the start of the compressed extent for every part of it.
inline constexpr uint32_t kOpaqueFlags = FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC |
                                         FIEMAP_EXTENT_ENCODED | FIEMAP_EXTENT_DATA_ENCRYPTED |
                                         FIEMAP_EXTENT_NOT_ALIGNED | FIEMAP_EXTENT_DATA_INLINE |
                                         FIEMAP_EXTENT_DATA_TAIL;
static_assert(kOpaqueFlags == 0x78E, "the mask that was tested against real file systems");

// LAST, MERGED and SHARED do not concern the bytes and are ignored.
inline ExtentClass Classify(uint32_t flags) {
  if ((flags & kOpaqueFlags) != 0) return ExtentClass::kOpaque;
  if ((flags & FIEMAP_EXTENT_UNWRITTEN) != 0) return ExtentClass::kZero;
  return ExtentClass::kData;
}

// CheckExtent() is the only place where untrusted numbers (from the kernel or a caller) become
// extents that the rest of the scan relies on.
enum class MapCheck : uint8_t {
  kTake,     // *extent is valid and inside the file.
  kBeyond,   // The extent starts at or after the end of the file; ignore it and all that follow.
  kInvalid,  // The map is not ascending, an extent is empty, or a number wraps around.
};

// `previous_end` is the end of the previous extent; *extent must not start before it. Clips *extent
// to `size`.
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

#endif  // BLOCKDELTA_NATIVE_SCAN_EXTENT_H_
