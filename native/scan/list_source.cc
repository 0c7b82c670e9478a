#include "native/scan/list_source.h"

#include <algorithm>
#include <string>

#include "native/scan/map_check.h"

namespace blockdelta {

ListSource::ListSource(Span<const uint64_t> words, uint64_t size_bytes)
    : words_(words), size_bytes_(size_bytes), count_(words.size() / kWordsPerExtent) {
  batch_.reserve(std::min(count_, kMaxBatchExtents));
}

void ListSource::Seek(uint64_t offset) {
  // First extent that ends after the offset. Sums wrap around in a bad list; that leads to a place
  // where reading finds the list invalid or at its end, and nowhere worse.
  size_t low = 0;
  size_t high = count_;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    const uint64_t* words = &words_[middle * kWordsPerExtent];
    if (words[0] + words[2] > offset) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  next_ = low;
  previous_end_ = 0;
}

Result<Span<const Extent>> ListSource::Read(size_t wanted) {
  batch_.clear();
  const size_t stop = std::min(count_, next_ + std::min(wanted, kMaxBatchExtents));
  while (next_ < stop) {
    const uint64_t* words = &words_[next_ * kWordsPerExtent];
    Extent extent = {words[0], words[1], words[2], static_cast<uint32_t>(words[3])};
    MapCheck check = CheckExtent(previous_end_, size_bytes_, &extent);
    if (words[3] > UINT32_MAX) check = MapCheck::kInvalid;
    if (check == MapCheck::kInvalid) {
      return Status::Scan(kScanMapInvalid, "",
                          "extent " + std::to_string(next_) + " of the list is not in order");
    }
    if (check == MapCheck::kBeyond) {
      next_ = count_;
      break;
    }
    batch_.push_back(extent);
    previous_end_ = extent.end();
    next_++;
  }
  return Span<const Extent>(batch_.data(), batch_.size());
}

}  // namespace blockdelta
