// The few words of an ext4 superblock that say how large the file system is.
//
// A pure function of bytes that anybody may have written: every word is range-checked. The kernel
// has no call that tells the number of blocks of a mounted ext4 (statfs leaves its tables out).
#ifndef BLOCKDELTA_NATIVE_DEVICE_EXT4_LAYOUT_H_
#define BLOCKDELTA_NATIVE_DEVICE_EXT4_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <optional>

namespace blockdelta {

// Where the superblock lies on the device, in bytes.
inline constexpr uint64_t kExt4SuperblockOffset = 1024;
inline constexpr size_t kExt4SuperblockBytes = 1024;

struct Ext4Layout {
  uint64_t blocks;
  uint32_t block_bytes;
  uint32_t first_block;
  uint32_t blocks_per_group;
  // What a group may need for its own tables, in blocks.
  uint64_t group_overhead;
};

// Nothing if these are not the `kExt4SuperblockBytes` of a superblock.
std::optional<Ext4Layout> ParseExt4Superblock(const uint8_t* bytes);

// Whether the file system gains from a device of that size. A last group that would hardly hold its
// own tables is left out by mkfs and by the kernel alike, so a little may stay unused for ever.
bool CanGrowTo(const Ext4Layout& layout, uint64_t device_bytes);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_EXT4_LAYOUT_H_
