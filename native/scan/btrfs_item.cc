#include "native/scan/btrfs_item.h"

#include <endian.h>
#include <linux/btrfs_tree.h>

#include <cstring>

namespace blockdelta {
namespace {

// Offsets in struct btrfs_file_extent_item, which is packed and lies unaligned in the buffer.
constexpr size_t kGeneration = 0;
constexpr size_t kRamBytes = 8;
constexpr size_t kCompression = 16;
constexpr size_t kEncryption = 17;
constexpr size_t kOtherEncoding = 18;
constexpr size_t kType = 20;
constexpr size_t kInlineHeadBytes = 21;
constexpr size_t kDiskBytenr = 21;
constexpr size_t kDiskNumBytes = 29;
constexpr size_t kOffset = 37;
constexpr size_t kNumBytes = 45;
constexpr size_t kItemBytes = 53;
static_assert(sizeof(struct btrfs_file_extent_item) == kItemBytes, "on-disk format of btrfs");

constexpr uint8_t kUncompressed = 0;
// zlib is 1, lzo 2, zstd 3. An unknown compression proves nothing.
constexpr uint8_t kMaxCompression = 3;
// The smallest sector of a btrfs: disk addresses are multiples of it.
constexpr uint64_t kMinSector = 4096;

uint64_t Word(Span<const uint8_t> bytes, size_t offset) {
  uint64_t value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return le64toh(value);
}

BtrfsItem Opaque(uint64_t key_offset, uint64_t length, uint32_t flag, uint64_t generation) {
  return {{key_offset, 0, length, flag}, generation};
}

std::optional<BtrfsItem> Parse(uint64_t key_offset, Span<const uint8_t> bytes) {
  const uint64_t generation = Word(bytes, kGeneration);
  const uint8_t compression = bytes[kCompression];
  const uint8_t type = bytes[kType];
  if (type == BTRFS_FILE_EXTENT_INLINE) {
    return Opaque(key_offset, Word(bytes, kRamBytes), FIEMAP_EXTENT_DATA_INLINE, generation);
  }
  if (bytes.size() < kItemBytes) return std::nullopt;
  const uint64_t length = Word(bytes, kNumBytes);
  if (type != BTRFS_FILE_EXTENT_REG && type != BTRFS_FILE_EXTENT_PREALLOC) {
    return Opaque(key_offset, length, FIEMAP_EXTENT_UNKNOWN, generation);
  }
  if (bytes[kEncryption] != 0 || bytes[kOtherEncoding] != 0 || bytes[kOtherEncoding + 1] != 0) {
    return Opaque(key_offset, length, FIEMAP_EXTENT_DATA_ENCRYPTED, generation);
  }
  const uint64_t disk_bytenr = Word(bytes, kDiskBytenr);
  if (type == BTRFS_FILE_EXTENT_PREALLOC || disk_bytenr == 0) {
    return BtrfsItem{{key_offset, 0, length, FIEMAP_EXTENT_UNWRITTEN}, generation};
  }
  const uint64_t offset = Word(bytes, kOffset);
  if (compression == kUncompressed) {
    if (offset > UINT64_MAX - disk_bytenr) return std::nullopt;
    return BtrfsItem{{key_offset, disk_bytenr + offset, length, 0}, generation};
  }
  if (compression > kMaxCompression || disk_bytenr % kMinSector != 0) {
    return Opaque(key_offset, length, FIEMAP_EXTENT_ENCODED, generation);
  }
  return BtrfsItem{{key_offset, offset, length, 0, disk_bytenr | compression}, generation};
}

}  // namespace

std::optional<BtrfsItem> ParseBtrfsItem(uint64_t key_offset, Span<const uint8_t> bytes) {
  if (bytes.size() < kInlineHeadBytes) return std::nullopt;
  std::optional<BtrfsItem> item = Parse(key_offset, bytes);
  // An item of this length names an extent on disk, or 0.
  if (item.has_value() && bytes[kType] != BTRFS_FILE_EXTENT_INLINE) {
    item->disk_address = Word(bytes, kDiskBytenr);
    if (item->disk_address != 0) item->disk_bytes = Word(bytes, kDiskNumBytes);
  }
  return item;
}

}  // namespace blockdelta
