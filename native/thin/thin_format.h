// Constants of the on-disk format of dm-thin metadata, version 2, and readers for its integers.
//
// Format: Linux drivers/md/dm-thin-metadata.c and drivers/md/persistent-data. Offsets are bytes in
// a block of kMetadataBlockBytes. Checks nothing and reads no blocks.
#ifndef BLOCKDELTA_NATIVE_THIN_THIN_FORMAT_H_
#define BLOCKDELTA_NATIVE_THIN_THIN_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace blockdelta {

// The format is little-endian, and so are the supported machines.
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "integers are read as they lie on disk");

inline uint32_t ReadLe32(const uint8_t* at) {
  uint32_t value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

inline uint64_t ReadLe64(const uint8_t* at) {
  uint64_t value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

inline void WriteLe32(uint8_t* at, uint32_t value) { std::memcpy(at, &value, sizeof(value)); }

inline void WriteLe64(uint8_t* at, uint64_t value) { std::memcpy(at, &value, sizeof(value)); }

// A space map has a bitmap, which takes a metadata block, for so many blocks.
inline constexpr uint64_t kBlocksPerBitmap = 16'320;
// 255 bitmaps: the maximum of the metadata space map.
inline constexpr uint64_t kMaxMetadataBlocks = 255 * kBlocksPerBitmap;

// Every block starts with its checksum: crc32c of the rest, not inverted at the end, XOR a salt.
inline constexpr uint32_t kSuperblockSalt = 160'774;
inline constexpr uint32_t kNodeSalt = 121'107;
// Offset of a block's own number.
inline constexpr size_t kOwnNumberOffset = 8;

namespace superblock_format {
inline constexpr size_t kFlags = 4;
inline constexpr size_t kMagic = 32;
inline constexpr size_t kVersion = 40;
inline constexpr size_t kTime = 44;
inline constexpr size_t kTransactionId = 48;
inline constexpr size_t kHeldRoot = 56;
inline constexpr size_t kDataSpaceMap = 64;
inline constexpr size_t kMetadataSpaceMap = 192;
inline constexpr size_t kMappingRoot = 320;
inline constexpr size_t kDetailsRoot = 328;
inline constexpr size_t kDataBlockSectors = 336;
inline constexpr size_t kMetadataBlockSectors = 340;
inline constexpr size_t kMetadataBlocks = 344;
inline constexpr size_t kIncompatFlags = 360;

inline constexpr uint32_t kNeedsCheckFlag = 1;
inline constexpr uint64_t kMagicNumber = 27'022'010;
inline constexpr uint32_t kVersionNumber = 2;
inline constexpr uint32_t kSectorBytes = 512;
// The kernel accepts data blocks of these sizes, in multiples of the smallest.
inline constexpr uint32_t kMinDataBlockSectors = 128;
inline constexpr uint32_t kMaxDataBlockSectors = 2'097'152;
}  // namespace superblock_format

namespace space_map_format {
inline constexpr size_t kBlocks = 0;
inline constexpr size_t kAllocated = 8;
}  // namespace space_map_format

// Header, then keys u64[max_entries], then values[max_entries].
namespace node_format {
inline constexpr size_t kFlags = 4;
inline constexpr size_t kEntries = 16;
inline constexpr size_t kMaxEntries = 20;
inline constexpr size_t kValueBytes = 24;
inline constexpr size_t kHeaderBytes = 32;
inline constexpr size_t kKeyBytes = 8;

inline constexpr uint32_t kInternalFlag = 1;
inline constexpr uint32_t kLeafFlag = 2;
inline constexpr uint32_t kChildBytes = 8;
}  // namespace node_format

// A value of the mapping tree: (data block << 24) | time.
inline constexpr unsigned kMappingTimeBits = 24;
inline constexpr uint64_t kMappingTimeMask = (uint64_t{1} << kMappingTimeBits) - 1;
inline constexpr uint32_t kMappingValueBytes = 8;

// A value of the details tree.
namespace details_format {
inline constexpr size_t kMappedBlocks = 0;
inline constexpr size_t kTransactionId = 8;
inline constexpr size_t kCreationTime = 16;
inline constexpr size_t kSnapshottedTime = 20;
inline constexpr uint32_t kValueBytes = 24;
}  // namespace details_format

inline constexpr uint64_t kMaxDeviceId = (1u << 24) - 1;

// A safe bound: with at least 84 children per node, 4 levels hold 4,161,600 blocks.
inline constexpr unsigned kMaxTreeHeight = 10;

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_THIN_FORMAT_H_
