#include "native/device/ext4_layout.h"

namespace blockdelta {
namespace {

constexpr uint32_t kMagic = 0xEF53;
constexpr uint32_t kIncompat64Bit = 0x80;
constexpr uint32_t kMaxLogBlockSize = 6;  // 64 KiB.
constexpr uint32_t kSmallDescriptor = 32;
// Bitmaps, and the blocks that mke2fs requires to be left in the last group.
constexpr uint64_t kSpareBlocks = 64;

uint64_t Word(const uint8_t* bytes, size_t offset, size_t size) {
  uint64_t value = 0;
  for (size_t i = size; i > 0; i--) value = value << 8 | bytes[offset + i - 1];
  return value;
}

uint32_t Word16(const uint8_t* bytes, size_t offset) {
  return static_cast<uint32_t>(Word(bytes, offset, 2));
}

uint32_t Word32(const uint8_t* bytes, size_t offset) {
  return static_cast<uint32_t>(Word(bytes, offset, 4));
}

uint64_t DivideUp(uint64_t value, uint64_t by) { return value / by + (value % by != 0 ? 1 : 0); }

}  // namespace

std::optional<Ext4Layout> ParseExt4Superblock(const uint8_t* bytes) {
  if (Word16(bytes, 0x38) != kMagic) return std::nullopt;
  const uint32_t log_block_size = Word32(bytes, 0x18);
  if (log_block_size > kMaxLogBlockSize) return std::nullopt;
  const bool is_64_bit = (Word32(bytes, 0x60) & kIncompat64Bit) != 0;
  Ext4Layout layout = {};
  layout.block_bytes = 1024u << log_block_size;
  layout.blocks = Word32(bytes, 0x04);
  if (is_64_bit) layout.blocks |= Word(bytes, 0x150, 4) << 32;
  layout.first_block = Word32(bytes, 0x14);
  layout.blocks_per_group = Word32(bytes, 0x20);
  const uint64_t inode_table_bytes = static_cast<uint64_t>(Word32(bytes, 0x28)) *  //
                                     Word16(bytes, 0x58);
  const uint64_t descriptor_bytes = is_64_bit ? Word16(bytes, 0xFE) : kSmallDescriptor;
  const bool is_sound = layout.first_block <= 1 && layout.blocks > layout.first_block &&
                        layout.blocks_per_group >= 8 &&
                        layout.blocks_per_group <= 8 * layout.block_bytes &&
                        layout.blocks <= UINT64_MAX / layout.block_bytes;
  if (!is_sound) return std::nullopt;
  const uint64_t groups = DivideUp(layout.blocks - layout.first_block, layout.blocks_per_group);
  layout.group_overhead = DivideUp(inode_table_bytes, layout.block_bytes) +
                          DivideUp(groups * descriptor_bytes, layout.block_bytes) +
                          Word16(bytes, 0xCE) + kSpareBlocks;
  return layout;
}

bool CanGrowTo(const Ext4Layout& layout, uint64_t device_bytes) {
  const uint64_t blocks = device_bytes / layout.block_bytes;
  if (blocks <= layout.blocks) return false;
  const bool ends_with_group = (layout.blocks - layout.first_block) % layout.blocks_per_group == 0;
  return !ends_with_group || blocks - layout.blocks > layout.group_overhead;
}

}  // namespace blockdelta
