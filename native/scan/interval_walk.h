// Compares two maps interval by interval, split at every boundary of either map.
//
// An interval is unchanged only if both sides are zeros, or both are data at the same address. Maps
// are never sampled at a fixed granularity: file systems share blocks smaller than any granularity
// one could choose. The allocated ranges are the differences from a file that is one hole, so one
// walk serves both requests.
#ifndef BLOCKDELTA_NATIVE_SCAN_INTERVAL_WALK_H_
#define BLOCKDELTA_NATIVE_SCAN_INTERVAL_WALK_H_

#include <algorithm>
#include <cstdint>

#include "native/scan/extent_cursor.h"

namespace blockdelta {

// The interval from the walk's position to `end`.
struct Interval {
  uint64_t end;
  // To be reported: changed or, without a base, allocated.
  bool reported;
  // Reported although both sides have the same address, because addresses are not trusted.
  bool unproved;
};

class IntervalWalk {
 public:
  // Walks [0, size_bytes). `base` may be null; bytes not covered by an extent are zeros. Both must
  // outlive this.
  IntervalWalk(ExtentSource* target, ExtentSource* base, uint64_t size_bytes)
      : target_(target), base_(base), size_bytes_(size_bytes) {}

  // While extents may move, an equal address proves nothing, and data is always reported against
  // data.
  void TrustAddresses(bool trust) { trust_addresses_ = trust; }

  // `wanted()`: as for ExtentCursor.
  template <typename Wanted>
  Status Seek(uint64_t offset, const Wanted& wanted) {
    RETURN_IF_ERROR(target_.Seek(offset, wanted));
    return base_.Seek(offset, wanted);
  }

  bool has_base() const { return base_.has_source(); }

  // REQUIRES: the position is below the size, and HAS_BASE if has_base(). Does not read.
  template <bool HAS_BASE = true>
  Interval Current() const {
    if (!HAS_BASE) {
      const uint64_t end = std::min(target_.piece_end(), size_bytes_);
      return {end, target_.piece_class() != ExtentClass::kZero, false};
    }
    const uint64_t end = std::min({target_.piece_end(), base_.piece_end(), size_bytes_});
    const ExtentClass kind = target_.piece_class();
    if (kind != base_.piece_class() || kind == ExtentClass::kOpaque) return {end, true, false};
    if (kind == ExtentClass::kZero) return {end, false, false};
    const bool is_same =
        target_.displacement() == base_.displacement() && target_.origin() == base_.origin();
    if (!is_same) return {end, true, false};
    return {end, !trust_addresses_, !trust_addresses_};
  }

  // Moves to the end of the current interval.
  template <bool HAS_BASE = true, typename Wanted>
  Status Advance(uint64_t end, const Wanted& wanted) {
    Status status = target_.Advance(end, wanted);
    if (!HAS_BASE || !status.ok()) return status;
    return base_.Advance(end, wanted);
  }

  // Takes extents of the target from memory: see ExtentCursor. REQUIRES: !has_base().
  template <typename Take>
  void TakeAhead(uint64_t offset, uint64_t limit, const Take& take) {
    target_.TakeAhead(offset, limit, take);
  }

  uint64_t size_bytes() const { return size_bytes_; }
  uint64_t extents() const { return target_.extents() + base_.extents(); }

 private:
  ExtentCursor target_;
  ExtentCursor base_;
  const uint64_t size_bytes_;
  bool trust_addresses_ = true;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_SCAN_INTERVAL_WALK_H_
