// The blocks that a deleted snapshot had mapped, as ranges in ascending order.
#ifndef BLOCKDELTA_NATIVE_THIN_KEPT_RANGES_H_
#define BLOCKDELTA_NATIVE_THIN_KEPT_RANGES_H_

#include <cstdint>

#include "native/base/status.h"
#include "native/thin/btree_node.h"

namespace blockdelta {

class KeptRanges {
 public:
  virtual ~KeptRanges() = default;

  // Goes to the first range that ends above `block`, cut to begin there at the earliest.
  virtual Status Seek(uint64_t block) = 0;
  // The current range, not empty; from UINT64_MAX on past the last one.
  const KeyRange& range() const { return range_; }
  // Takes the blocks below `block` away. REQUIRES: it is in the current range, or its end.
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

#endif  // BLOCKDELTA_NATIVE_THIN_KEPT_RANGES_H_
