// An extent map given by the caller as a list of words, for backends without extent maps of their
// own.
#ifndef BLOCKDELTA_NATIVE_SCAN_LIST_SOURCE_H_
#define BLOCKDELTA_NATIVE_SCAN_LIST_SOURCE_H_

#include <vector>

#include "native/scan/extent_source.h"

namespace blockdelta {

class ListSource : public ExtentSource {
 public:
  // Words per extent: logical, physical, length, FIEMAP flags. Trailing words are ignored.
  static constexpr size_t kWordsPerExtent = 4;

  // `words` must outlive this. The order of the extents is checked during reads.
  ListSource(Span<const uint64_t> words, uint64_t size_bytes);

  void Seek(uint64_t offset) override;
  Result<Span<const Extent>> Read(size_t wanted) override;

 private:
  const Span<const uint64_t> words_;
  const uint64_t size_bytes_;
  const size_t count_;
  uint64_t offset_ = 0;
  size_t next_ = 0;
  uint64_t previous_end_ = 0;
  std::vector<Extent> batch_;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_SCAN_LIST_SOURCE_H_
