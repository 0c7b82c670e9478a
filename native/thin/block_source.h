// Where blocks of thin metadata come from: a file, a device, or memory.
//
// Moves blocks and believes nothing: whoever asked checks what came. Knows no tree.
#ifndef BLOCKDELTA_NATIVE_THIN_BLOCK_SOURCE_H_
#define BLOCKDELTA_NATIVE_THIN_BLOCK_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "native/base/span.h"
#include "native/base/status.h"

namespace blockdelta {

inline constexpr size_t kMetadataBlockBytes = 4096;

// Not thread-safe; what it does in threads of its own has ended when a call returns.
class BlockSource {
 public:
  virtual ~BlockSource() = default;

  // Names the source in failures.
  virtual const std::string& path() const = 0;
  // Whole blocks there are; higher numbers do not exist.
  virtual uint64_t block_count() const = 0;
  // How many blocks asked for at once make a read efficient; 1 if that makes no difference.
  virtual size_t batch_blocks() const = 0;
  // Reads blocks, in any order: number i to out + i * kMetadataBlockBytes. `out` is
  // aligned to kMetadataBlockBytes. THIN_METADATA_INVALID for a number that does not exist.
  virtual Status Read(Span<const uint64_t> numbers, uint8_t* out) = 0;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_BLOCK_SOURCE_H_
