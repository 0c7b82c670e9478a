// A generated map of any size that needs no memory, for long streams without a disk.
#ifndef BLOCKDELTA_TEST_NATIVE_PATTERN_SOURCE_H_
#define BLOCKDELTA_TEST_NATIVE_PATTERN_SOURCE_H_

#include <vector>

#include "native/scan/extent_source.h"

namespace blockdelta::test {

class PatternSource : public ExtentSource {
 public:
  // Data extents of `extent_bytes` at every multiple of `stride_bytes` below `size_bytes`, the last
  // one clipped. REQUIRES: 1 <= extent_bytes <= stride_bytes, size_bytes < 2^63.
  PatternSource(uint64_t size_bytes, uint64_t extent_bytes, uint64_t stride_bytes);

  void Seek(uint64_t offset) override;
  Result<Span<const Extent>> Read(size_t wanted) override;

 private:
  const uint64_t size_bytes_;
  const uint64_t extent_bytes_;
  const uint64_t stride_bytes_;
  uint64_t next_logical_ = 0;
  std::vector<Extent> batch_;
};

}  // namespace blockdelta::test

#endif  // BLOCKDELTA_TEST_NATIVE_PATTERN_SOURCE_H_
