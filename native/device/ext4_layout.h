// The fields of an ext4 superblock that determine the size of the file system.
//
// A pure function of untrusted bytes: every field is range-checked. The kernel has no call that
// returns the number of blocks of a mounted ext4 (statfs excludes its tables).
#ifndef BLOCKDELTA_NATIVE_DEVICE_EXT4_LAYOUT_H_
#define BLOCKDELTA_NATIVE_DEVICE_EXT4_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <optional>

namespace blockdelta {

// Offset of the superblock on the device, bytes.
inline constexpr uint64_t kExt4SuperblockOffset = 1024;
inline constexpr size_t kExt4SuperblockBytes = 1024;

struct Ext4Layout {
  uint64_t blocks;
  uint32_t block_bytes;
  uint32_t first_block;
  uint32_t blocks_per_group;
  // Upper bound for the tables of a group, in blocks.
  uint64_t group_overhead;
};

// Nothing if the kExt4SuperblockBytes at `bytes` are not a valid superblock.
std::optional<Ext4Layout> ParseExt4Superblock(const uint8_t* bytes);

// Whether the file system can grow on a device of that size. mkfs and the kernel omit a last group
// too small for its own tables, so a small rest of the device may stay unused.
bool CanGrowTo(const Ext4Layout& layout, uint64_t device_bytes);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_EXT4_LAYOUT_H_
