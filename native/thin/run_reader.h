// Reads many blocks of one descriptor in ascending order, neighbours with one call.
//
// Knows nothing of devices, files or the content of blocks.
#ifndef BLOCKDELTA_NATIVE_THIN_RUN_READER_H_
#define BLOCKDELTA_NATIVE_THIN_RUN_READER_H_

#include <cstdint>
#include <string>

#include "native/base/span.h"
#include "native/base/status.h"

namespace blockdelta {

// Maximum number of blocks per system call, those of gaps included.
inline constexpr size_t kMaxRunBlocks = 64;

struct BlockFile {
  int fd;
  const std::string& path;
  // Number of whole blocks.
  uint64_t block_count;
  // One call reads two wanted blocks with at most this many other blocks between them, which are
  // discarded.
  uint64_t max_gap;
};

// Works like BlockSource::Read(), with up to `threads` threads including the caller; the others
// have ended on return. Besides `out`, uses 32 bytes per block, and max_gap blocks per thread. A
// failure names the first block that cannot be read on its own; a file that became shorter is
// THIN_METADATA_INVALID.
Status ReadBlocks(const BlockFile& file, Span<const uint64_t> numbers, unsigned threads,
                  uint8_t* out);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_RUN_READER_H_
