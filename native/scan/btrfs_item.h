// A file extent item of btrfs, parsed from the bytes that the kernel returns.
//
// Decides what an item proves about the bytes it maps; knows no ioctl and no file.
#ifndef BLOCKDELTA_NATIVE_SCAN_BTRFS_ITEM_H_
#define BLOCKDELTA_NATIVE_SCAN_BTRFS_ITEM_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "native/base/span.h"
#include "native/scan/extent.h"

namespace blockdelta {

struct BtrfsItem {
  // The extent is not clipped to the file, and not yet checked by CheckExtent(). Its flags say what
  // the item proves: a hole or a preallocation is UNWRITTEN; an inline, encrypted or unknown item
  // is opaque; a compressed item has an origin.
  Extent extent;
  // The transaction that wrote the item. Relocation keeps the number, everything else renews it.
  uint64_t generation;
  // The extent on disk of which the item maps a part: its address and its size, both 0 if there is
  // none. The file system frees it as a whole.
  uint64_t disk_address = 0;
  uint64_t disk_bytes = 0;
};

// `key_offset` is the offset of the item's key: its first byte in the file. Nothing if the item is
// too short or a number wraps around.
std::optional<BtrfsItem> ParseBtrfsItem(uint64_t key_offset, Span<const uint8_t> bytes);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_SCAN_BTRFS_ITEM_H_
