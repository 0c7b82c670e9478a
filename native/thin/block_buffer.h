// Memory for blocks, aligned as O_DIRECT wants it.
#ifndef BLOCKDELTA_NATIVE_THIN_BLOCK_BUFFER_H_
#define BLOCKDELTA_NATIVE_THIN_BLOCK_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "native/thin/block_source.h"

namespace blockdelta {

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

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_BLOCK_BUFFER_H_
