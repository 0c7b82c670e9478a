// Iterates over an extent source as contiguous pieces: extents, and the holes between them.
//
// A cursor without a source represents a file that is one endless hole.
#ifndef BLOCKDELTA_NATIVE_SCAN_EXTENT_CURSOR_H_
#define BLOCKDELTA_NATIVE_SCAN_EXTENT_CURSOR_H_

#include <cstdint>

#include "native/scan/extent_source.h"

namespace blockdelta {

class ExtentCursor {
 public:
  // `source` may be null and must outlive this.
  explicit ExtentCursor(ExtentSource* source) : source_(source) {}

  bool has_source() const { return source_ != nullptr; }

  // Moves to the piece that contains `offset`. `wanted()` returns how many extents are likely to be
  // used; it is called only before a read.
  template <typename Wanted>
  Status Seek(uint64_t offset, const Wanted& wanted) {
    next_ = last_ = nullptr;
    if (source_ == nullptr) return Status();
    source_->Seek(offset);
    Status status = Load(wanted);
    SetPiece(offset);
    return status;
  }

  // Moves forward to `offset`. REQUIRES: the current piece starts before `offset` and does not end
  // before it.
  template <typename Wanted>
  Status Advance(uint64_t offset, const Wanted& wanted) {
    if (offset < piece_end_) return Status();
    if (offset == extent_end_) {
      RETURN_IF_ERROR(Load(wanted));
    }
    SetPiece(offset);
    return Status();
  }

  // Passes whole extents that are in memory to `take(start, end, class)`, from the current one on,
  // until `take` returns false or has taken `limit` extents, and moves behind the last one taken.
  // `offset` is the position before the call. The extent behind the taken ones becomes the current
  // one, so the last extent in memory is never passed. Does not read.
  template <typename Take>
  void TakeAhead(uint64_t offset, uint64_t limit, const Take& take) {
    uint64_t start = extent_start_;
    uint64_t end = extent_end_;
    ExtentClass kind = extent_class_;
    const Extent* next = next_;
    const Extent* const stop =
        static_cast<uint64_t>(last_ - next_) <= limit ? last_ : next_ + limit;
    while (next != stop && take(start, end, kind)) {
      offset = end;
      start = next->logical;
      end = next->end();
      kind = Classify(next->flags);
      next++;
    }
    if (next == next_) return;
    extents_ += static_cast<uint64_t>(next - next_);
    next_ = next;
    extent_start_ = start;
    extent_end_ = end;
    extent_class_ = kind;
    displacement_ = next[-1].physical - next[-1].logical;
    SetPiece(offset);
  }

  // The current piece: its class, its end, and for data its displacement (address minus offset) and
  // the origin of its addresses. Two data pieces have the same bytes at the same offsets if
  // displacement and origin are equal.
  ExtentClass piece_class() const { return piece_class_; }
  uint64_t piece_end() const { return piece_end_; }
  uint64_t displacement() const { return displacement_; }
  uint64_t origin() const { return origin_; }

  // Extents visited since construction.
  uint64_t extents() const { return extents_; }

 private:
  static constexpr uint64_t kNever = UINT64_MAX;

  // Makes the next extent the current one; after the last one, an extent that is never reached.
  template <typename Wanted>
  Status Load(const Wanted& wanted) {
    if (next_ == last_) {
      RETURN_IF_ERROR(ReadBatch(wanted()));
    }
    if (next_ == last_) {
      extent_start_ = extent_end_ = kNever;
      return Status();
    }
    extents_++;
    extent_start_ = next_->logical;
    extent_end_ = next_->end();
    extent_class_ = Classify(next_->flags);
    displacement_ = next_->physical - next_->logical;
    origin_ = next_->origin;
    next_++;
    return Status();
  }

  Status ReadBatch(size_t wanted) {
    Result<Span<const Extent>> batch = source_->Read(wanted);
    RETURN_IF_ERROR(batch);
    next_ = batch->begin();
    last_ = batch->end();
    return Status();
  }

  void SetPiece(uint64_t offset) {
    const bool in_hole = offset < extent_start_;
    piece_class_ = in_hole ? ExtentClass::kZero : extent_class_;
    piece_end_ = in_hole ? extent_start_ : extent_end_;
  }

  ExtentSource* const source_;
  const Extent* next_ = nullptr;
  const Extent* last_ = nullptr;
  uint64_t extent_start_ = kNever;
  uint64_t extent_end_ = kNever;
  ExtentClass extent_class_ = ExtentClass::kZero;
  ExtentClass piece_class_ = ExtentClass::kZero;
  uint64_t piece_end_ = kNever;
  uint64_t displacement_ = 0;
  uint64_t origin_ = 0;
  uint64_t extents_ = 0;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_SCAN_EXTENT_CURSOR_H_
