#include "native/thin/superblock.h"

#include "native/base/posix.h"
#include "native/thin/block_source.h"
#include "native/thin/metadata_block.h"
#include "native/thin/thin_format.h"

namespace blockdelta {
namespace {

using namespace superblock_format;

constexpr int kAttempts = 4;
constexpr unsigned kRestMs = 2;

// Checks the fields of a superblock and keeps the first violation.
class Inspection {
 public:
  Inspection(uint64_t number, const std::string& path) : number_(number), path_(path) {}

  // Records a failure unless `holds` or one was recorded before.
  void Expect(bool holds, const char* field, const std::string& expected, uint64_t found) {
    if (holds || !status_.ok()) return;
    status_ = InvalidBlock(
        path_, number_,
        std::string("expected ") + field + " " + expected + ", found " + std::to_string(found));
  }

  Status TakeStatus() { return std::move(status_); }

 private:
  uint64_t number_;
  const std::string& path_;
  Status status_;
};

void CheckHead(const uint8_t* block, Inspection* inspection) {
  const uint64_t magic = ReadLe64(block + kMagic);
  inspection->Expect(magic == kMagicNumber, "magic", std::to_string(kMagicNumber), magic);
  const uint32_t version = ReadLe32(block + kVersion);
  inspection->Expect(version == kVersionNumber, "version", std::to_string(kVersionNumber), version);
  const uint32_t incompat = ReadLe32(block + kIncompatFlags);
  inspection->Expect(incompat == 0, "no incompatible features, flags", "0", incompat);
}

void CheckSizes(const uint8_t* block, Inspection* inspection) {
  const uint32_t data = ReadLe32(block + kDataBlockSectors);
  inspection->Expect(data >= kMinDataBlockSectors && data <= kMaxDataBlockSectors &&
                         data % kMinDataBlockSectors == 0,
                     "a data block size in sectors", "from 128 to 2097152, a multiple of 128",
                     data);
  const uint32_t metadata = ReadLe32(block + kMetadataBlockSectors);
  inspection->Expect(metadata == kMetadataBlockBytes / kSectorBytes,
                     "a metadata block size in sectors", "of 8", metadata);
  const uint64_t blocks = ReadLe64(block + kMetadataBlocks);
  inspection->Expect(blocks > 0 && blocks <= kMaxMetadataBlocks, "a number of metadata blocks",
                     "from 1 to " + std::to_string(kMaxMetadataBlocks), blocks);
}

void CheckRoots(const Superblock& superblock, uint64_t number, uint64_t block_count,
                Inspection* inspection) {
  const std::string bounds = "from 1 to below " + std::to_string(block_count);
  const auto is_block = [&](uint64_t root) {
    return root != 0 && root < block_count && root != number;
  };
  inspection->Expect(is_block(superblock.mapping_root), "a mapping root", bounds,
                     superblock.mapping_root);
  inspection->Expect(is_block(superblock.details_root), "a details root", bounds,
                     superblock.details_root);
  if (number != 0) {
    inspection->Expect(superblock.held_root == 0, "a held root in a copy", "of 0",
                       superblock.held_root);
  } else {
    inspection->Expect(superblock.held_root == 0 || is_block(superblock.held_root), "a held root",
                       "of 0 or " + bounds, superblock.held_root);
  }
}

// Only the current superblock has space map roots; in a copy they are zero.
void CheckSpaceMaps(const uint8_t* block, uint64_t number, uint64_t block_count,
                    Inspection* inspection) {
  const uint64_t data = ReadLe64(block + kDataSpaceMap + space_map_format::kBlocks);
  const uint64_t data_used = ReadLe64(block + kDataSpaceMap + space_map_format::kAllocated);
  const uint64_t metadata = ReadLe64(block + kMetadataSpaceMap + space_map_format::kBlocks);
  const uint64_t metadata_used = ReadLe64(block + kMetadataSpaceMap + space_map_format::kAllocated);
  if (number != 0) {
    inspection->Expect(data == 0, "data blocks in a copy", "to be 0", data);
    inspection->Expect(metadata == 0, "metadata blocks in the space map of a copy", "to be 0",
                       metadata);
    return;
  }
  inspection->Expect(data_used <= data, "allocated data blocks", "up to " + std::to_string(data),
                     data_used);
  inspection->Expect(metadata > 0 && metadata <= block_count, "metadata blocks in the space map",
                     "from 1 to the " + std::to_string(block_count) + " there are", metadata);
  inspection->Expect(metadata_used <= metadata, "allocated metadata blocks",
                     "up to " + std::to_string(metadata), metadata_used);
}

Superblock Fields(const uint8_t* block, uint64_t number) {
  Superblock superblock;
  superblock.needs_check = (ReadLe32(block + kFlags) & kNeedsCheckFlag) != 0;
  superblock.time = ReadLe32(block + kTime);
  superblock.transaction_id = ReadLe64(block + kTransactionId);
  superblock.held_root = ReadLe64(block + kHeldRoot);
  superblock.checksum = ReadLe32(block);
  superblock.mapping_root = ReadLe64(block + kMappingRoot);
  superblock.details_root = ReadLe64(block + kDetailsRoot);
  superblock.data_block_bytes = uint64_t{ReadLe32(block + kDataBlockSectors)} * kSectorBytes;
  superblock.data_blocks = ReadLe64(block + kDataSpaceMap + space_map_format::kBlocks);
  // The kernel does not update kMetadataBlocks when the metadata grows.
  superblock.metadata_blocks = number == 0
                                   ? ReadLe64(block + kMetadataSpaceMap + space_map_format::kBlocks)
                                   : ReadLe64(block + kMetadataBlocks);
  return superblock;
}

}  // namespace

Result<Superblock> ParseSuperblock(const uint8_t* block, uint64_t number, uint64_t block_count,
                                   const std::string& path) {
  RETURN_IF_ERROR(CheckBlock(block, number, kSuperblockSalt, "a superblock", path));
  const Superblock superblock = Fields(block, number);
  Inspection inspection(number, path);
  CheckHead(block, &inspection);
  CheckSizes(block, &inspection);
  CheckRoots(superblock, number, block_count, &inspection);
  CheckSpaceMaps(block, number, block_count, &inspection);
  RETURN_IF_ERROR(inspection.TakeStatus());
  return superblock;
}

Result<Superblock> ReadSuperblock(BlockSource* source, uint64_t number) {
  BlockBuffer buffer(1);
  for (int attempt = 1;; attempt++) {
    RETURN_IF_ERROR(source->Read(Span<const uint64_t>(&number, 1), buffer.data()));
    Result<Superblock> superblock =
        ParseSuperblock(buffer.data(), number, source->block_count(), source->path());
    if (superblock.ok() || attempt == kAttempts) return superblock;
    SleepMs(kRestMs);
  }
}

}  // namespace blockdelta
