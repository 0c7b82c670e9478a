// Reads many blocks of one descriptor: in the order they lie there, neighbours by one call.
//
// Knows neither devices nor files, and nothing of what is in the blocks.
#ifndef BLOCKDELTA_NATIVE_THIN_RUN_READER_H_
#define BLOCKDELTA_NATIVE_THIN_RUN_READER_H_

#include <cstdint>
#include <string>

#include "native/base/span.h"
#include "native/base/status.h"

namespace blockdelta {

// Blocks that one call reads at most.
inline constexpr size_t kMaxRunBlocks = 64;

struct BlockFile {
  int fd;
  const std::string& path;
  // Whole blocks there are.
  uint64_t block_count;
};

// As BlockSource::Read, by up to `threads` threads, this one included; the others have ended when
// it returns. Needs, beside `out`, 32 bytes a block. A failed read names the first block that
// cannot be read alone; a file that is shorter than it was is THIN_METADATA_INVALID.
Status ReadBlocks(const BlockFile& file, Span<const uint64_t> numbers, unsigned threads,
                  uint8_t* out);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_RUN_READER_H_
