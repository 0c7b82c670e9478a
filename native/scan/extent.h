// An extent of a file's map and what it says about the bytes below it.
//
// The rule that makes changed-block lists sound lives here and nowhere else: whatever is not proved
// to be zeros or plain data at a known address is opaque, and opaque never equals anything.
#ifndef BLOCKDELTA_NATIVE_SCAN_EXTENT_H_
#define BLOCKDELTA_NATIVE_SCAN_EXTENT_H_

#include <linux/fiemap.h>

#include <cstdint>

namespace blockdelta {

// Bytes [logical, logical + length) of a file, stored at `physical`. `flags` are FIEMAP_EXTENT_*.
struct Extent {
  uint64_t logical;
  uint64_t physical;
  uint64_t length;
  uint32_t flags;

  uint64_t end() const { return logical + length; }
};

enum class ExtentClass : uint8_t {
  kZero,    // All bytes read as zero.
  kOpaque,  // Unknown bytes: the address proves nothing.
  kData,    // Unknown bytes, fixed by their address.
};

// Extents whose physical address does not stand for their bytes. ENCODED matters most: btrfs gives
// the start of the compressed extent for every piece of it.
inline constexpr uint32_t kOpaqueFlags = FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC |
                                         FIEMAP_EXTENT_ENCODED | FIEMAP_EXTENT_DATA_ENCRYPTED |
                                         FIEMAP_EXTENT_NOT_ALIGNED | FIEMAP_EXTENT_DATA_INLINE |
                                         FIEMAP_EXTENT_DATA_TAIL;
static_assert(kOpaqueFlags == 0x78E, "the mask that was tested against real file systems");

// LAST, MERGED and SHARED say nothing about the bytes and are ignored.
inline ExtentClass Classify(uint32_t flags) {
  if ((flags & kOpaqueFlags) != 0) return ExtentClass::kOpaque;
  if ((flags & FIEMAP_EXTENT_UNWRITTEN) != 0) return ExtentClass::kZero;
  return ExtentClass::kData;
}

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_SCAN_EXTENT_H_
