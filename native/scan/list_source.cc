#include "native/scan/list_source.h"

#include <algorithm>
#include <string>

#include "native/scan/extent.h"

namespace blockdelta {

ListSource::ListSource(Span<const uint64_t> words, uint64_t size_bytes)
    : words_(words), size_bytes_(size_bytes), count_(words.size() / kWordsPerExtent) {
  batch_.reserve(std::min(count_, kMaxBatchExtents));
}

void ListSource::Seek(uint64_t offset) {
  // Read() skips and checks the extents before `offset`: a binary search in a list of unverified
  // order could end anywhere.
  offset_ = offset;
  next_ = 0;
  previous_end_ = 0;
}

Result<Span<const Extent>> ListSource::Read(size_t wanted) {
  batch_.clear();
  const size_t limit = std::min(wanted, kMaxBatchExtents);
  for (; next_ < count_ && batch_.size() < limit; next_++) {
    const uint64_t* words = &words_[next_ * kWordsPerExtent];
    Extent extent = {words[0], words[1], words[2], static_cast<uint32_t>(words[3])};
    MapCheck check = CheckExtent(previous_end_, size_bytes_, &extent);
    if (words[3] > UINT32_MAX) check = MapCheck::kInvalid;
    if (check == MapCheck::kInvalid) {
      return Status::Scan(kScanMapInvalid, "",
                          "extent " + std::to_string(next_) + " of the list is out of order");
    }
    if (check == MapCheck::kBeyond) {
      next_ = count_;
      break;
    }
    previous_end_ = extent.end();
    if (extent.end() > offset_) batch_.push_back(extent);
  }
  return Span<const Extent>(batch_.data(), batch_.size());
}

}  // namespace blockdelta
