// A source of thin metadata blocks: a file, a device, or memory.
//
// Reads blocks without checking their content; the caller checks. Knows no trees.
#ifndef BLOCKDELTA_NATIVE_THIN_BLOCK_SOURCE_H_
#define BLOCKDELTA_NATIVE_THIN_BLOCK_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>

#include "native/base/span.h"
#include "native/base/status.h"

namespace blockdelta {

inline constexpr size_t kMetadataBlockBytes = 4096;

// Memory for metadata blocks, aligned for O_DIRECT.
class BlockBuffer {
 public:
  BlockBuffer() = default;
  // Uninitialized. REQUIRES: blocks > 0.
  explicit BlockBuffer(size_t blocks)
      : bytes_(static_cast<uint8_t*>(
            ::operator new(blocks* kMetadataBlockBytes, std::align_val_t(kMetadataBlockBytes)))),
        blocks_(blocks) {}

  size_t blocks() const { return blocks_; }
  uint8_t* data() { return bytes_.get(); }
  uint8_t* block(size_t index) { return bytes_.get() + index * kMetadataBlockBytes; }

 private:
  struct Free {
    void operator()(uint8_t* bytes) const {
      ::operator delete(bytes, std::align_val_t(kMetadataBlockBytes));
    }
  };

  std::unique_ptr<uint8_t, Free> bytes_;
  size_t blocks_ = 0;
};

// Not thread-safe. Threads started by a call have ended when it returns.
class BlockSource {
 public:
  virtual ~BlockSource() = default;

  // Identifies the source in failures.
  virtual const std::string& path() const = 0;
  // Number of whole blocks.
  virtual uint64_t block_count() const = 0;
  // Number of blocks that a walk has to know, to read them in the order of their numbers, for
  // reading to be efficient; 1 if the order makes no difference.
  virtual size_t batch_blocks() const = 0;
  // Reads blocks in any order: block numbers[i] to out + i * kMetadataBlockBytes. `out` is aligned
  // to kMetadataBlockBytes. THIN_METADATA_INVALID for a number that does not exist.
  virtual Status Read(Span<const uint64_t> numbers, uint8_t* out) = 0;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_BLOCK_SOURCE_H_
