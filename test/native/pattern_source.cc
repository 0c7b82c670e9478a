#include "test/native/pattern_source.h"

#include <algorithm>

namespace blockdelta::test {

PatternSource::PatternSource(uint64_t size_bytes, uint64_t extent_bytes, uint64_t stride_bytes)
    : size_bytes_(size_bytes),
      extent_bytes_(extent_bytes),
      stride_bytes_(stride_bytes),
      batch_(kMaxBatchExtents) {}

void PatternSource::Seek(uint64_t offset) {
  next_logical_ = offset - offset % stride_bytes_;
  const bool ends_before = offset - next_logical_ >= extent_bytes_;
  if (!ends_before) return;
  const bool has_next = next_logical_ < size_bytes_ && stride_bytes_ < size_bytes_ - next_logical_;
  next_logical_ = has_next ? next_logical_ + stride_bytes_ : size_bytes_;
}

Result<Span<const Extent>> PatternSource::Read(size_t wanted) {
  const size_t limit = std::min(wanted, kMaxBatchExtents);
  size_t count = 0;
  while (count < limit && next_logical_ < size_bytes_) {
    const uint64_t left = size_bytes_ - next_logical_;
    batch_[count++] = {next_logical_, next_logical_, std::min(extent_bytes_, left), 0};
    next_logical_ = stride_bytes_ < left ? next_logical_ + stride_bytes_ : size_bytes_;
  }
  return Span<const Extent>(batch_.data(), count);
}

}  // namespace blockdelta::test
