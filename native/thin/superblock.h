// The superblock of thin metadata: the roots of the trees and the properties of the pool.
//
// Format: Linux drivers/md/dm-thin-metadata.c, struct thin_disk_superblock.
#ifndef BLOCKDELTA_NATIVE_THIN_SUPERBLOCK_H_
#define BLOCKDELTA_NATIVE_THIN_SUPERBLOCK_H_

#include <cstdint>
#include <string>

#include "native/base/status.h"
#include "native/thin/block_source.h"

namespace blockdelta {

struct Superblock {
  // Checksum of the block; differs between commits.
  uint32_t checksum = 0;
  // The pool needs thin_check or thin_repair.
  bool needs_check = false;
  // Incremented by every snapshot.
  uint32_t time = 0;
  uint64_t transaction_id = 0;
  // Block of the superblock copy of the held metadata snapshot; 0 if none is held.
  uint64_t held_root = 0;
  uint64_t mapping_root = 0;
  uint64_t details_root = 0;
  uint64_t data_block_bytes = 0;
  // Blocks of the data device; 0 in a copy, which does not contain the number.
  uint64_t data_blocks = 0;
  // From the space map; in a copy, the number at the creation of the pool.
  uint64_t metadata_blocks = 0;
};

// Parses the 4096 bytes of the superblock in block `number`: 0 is the current one, any other the
// copy of a metadata snapshot. THIN_METADATA_INVALID for invalid fields and for references beyond
// `block_count` blocks.
Result<Superblock> ParseSuperblock(const uint8_t* block, uint64_t number, uint64_t block_count,
                                   const std::string& path);

// Reads and parses a superblock. It is the only block written in place, so a read on a live pool
// may be torn and is retried a few times.
Result<Superblock> ReadSuperblock(BlockSource* source, uint64_t number);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_SUPERBLOCK_H_
