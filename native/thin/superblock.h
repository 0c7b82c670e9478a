// The superblock of thin metadata: where the trees begin, and what the pool is like.
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
  // Of the whole block: another one is another commit.
  uint32_t checksum = 0;
  // The kernel wants the pool checked or repaired.
  bool needs_check = false;
  // Raised by each snapshot.
  uint32_t time = 0;
  uint64_t transaction_id = 0;
  // Block of the copy that a metadata snapshot made; 0: none is held.
  uint64_t held_root = 0;
  uint64_t mapping_root = 0;
  uint64_t details_root = 0;
  uint64_t data_block_bytes = 0;
  // Blocks of the data device; 0 in a copy, which does not know.
  uint64_t data_blocks = 0;
  // As counted by the space map; in a copy, as many as there were when the pool was made.
  uint64_t metadata_blocks = 0;
};

// What 4096 bytes say that are to be the superblock in block `number`: 0 the current one, any other
// the copy of a metadata snapshot. THIN_METADATA_INVALID, also where it counts on more than the
// `block_count` blocks there are.
Result<Superblock> ParseSuperblock(const uint8_t* block, uint64_t number, uint64_t block_count,
                                   const std::string& path);

// Reads and parses it. The superblock is the one block that is written in place: on a live pool a
// read may meet it half written, so it is read a few times before it is called invalid.
Result<Superblock> ReadSuperblock(BlockSource* source, uint64_t number);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_SUPERBLOCK_H_
