// The mapped blocks of a deleted snapshot, as ranges in ascending order.
#ifndef BLOCKDELTA_NATIVE_THIN_BOOKMARK_RANGES_H_
#define BLOCKDELTA_NATIVE_THIN_BOOKMARK_RANGES_H_

#include <cstdint>

#include "native/base/status.h"
#include "native/thin/btree_node.h"

namespace blockdelta {

class BookmarkRanges {
 public:
  virtual ~BookmarkRanges() = default;

  // Seeks the first range that ends above `block`, clipped to start at `block` or later.
  virtual Status Seek(uint64_t block) = 0;
  // The current range, never empty; starts at UINT64_MAX after the last one.
  const KeyRange& range() const { return range_; }
  // Removes the blocks below `block`. REQUIRES: `block` is in the current range, or its end.
  Status Consume(uint64_t block) {
    range_.low = block;
    return block < range_.high ? Status() : Next();
  }

 protected:
  // Makes the next range the current one.
  virtual Status Next() = 0;

  KeyRange range_ = {UINT64_MAX, UINT64_MAX};
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_BOOKMARK_RANGES_H_
