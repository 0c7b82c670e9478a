// Turns a walk into messages: merges adjacent reported intervals into ranges and writes them until
// a limit is reached. Two numbers are enough for the next call to continue.
//
// A range that is still open when a limit stops the walk is not written; its start is passed to the
// next call, so ranges are also merged across calls. Knows neither files nor JavaScript.
#ifndef BLOCKDELTA_NATIVE_SCAN_FILL_H_
#define BLOCKDELTA_NATIVE_SCAN_FILL_H_

#include <cstdint>

#include "native/scan/interval_walk.h"
#include "native/scan/message_writer.h"

namespace blockdelta {

struct FillLimits {
  // First byte not yet examined, at most the size of the target.
  uint64_t offset;
  // Start of the range that is open at `offset`; `offset` if there is none.
  uint64_t range_start;
  // Each at least 1.
  uint64_t max_entries;
  uint64_t max_entries_per_message;
  uint64_t max_extents;
  // Write one message without entries if the scan ends and this call found none.
  bool send_empty;
};

struct FillOutcome {
  uint64_t messages = 0;
  uint64_t bytes = 0;
  uint64_t entries = 0;
  uint64_t entry_bytes = 0;
  uint64_t next_offset = 0;
  uint64_t next_range_start = 0;
  bool done = false;
  uint64_t extents = 0;
  uint64_t rescans = 0;
  uint64_t unproved_bytes = 0;
  // Nodes of mapping trees read from thin metadata; 0 for other sources.
  uint64_t nodes = 0;
};

class Filler {
 public:
  // Both must outlive this. REQUIRES: the writer is unused.
  Filler(IntervalWalk* walk, MessageWriter* writer, const FillLimits& limits);

  // Reads the maps again from the current position.
  Status Seek();
  // Walks until `extents` more extents were visited or the call is finished. Consumes at least one
  // interval, so repeated calls reach the end. REQUIRES: Seek() succeeded.
  Status Run(uint64_t extents);
  // Whether a limit is reached, or everything is walked and written.
  bool finished() const { return finished_; }

  // A position to return to if the data read since then proves unsound. Visited extents stay
  // counted: they cost time.
  struct Mark {
    uint64_t position;
    uint64_t range_start;
    uint64_t unproved_bytes;
    bool finished;
    MessageWriter::Mark written;
  };
  Mark mark() const;
  void Rewind(const Mark& mark);

  // Ends the last message. No other call may follow.
  FillOutcome Finish();

 private:
  // Run() until the walk has visited `stop` extents in total.
  template <bool HAS_BASE>
  Status RunUntil(uint64_t stop);
  // Consumes extents that are in memory and reach no limit. The result is the same as interval by
  // interval, in a third of the time. REQUIRES: no base.
  void ConsumeAhead(uint64_t stop);
  bool WriteOpenRange();
  // Consumes the current interval. False if there is no room for the entry before it.
  bool Consume(const Interval& interval);
  size_t LikelyExtents() const;

  IntervalWalk* const walk_;
  MessageWriter* const writer_;
  const FillLimits limits_;
  uint64_t position_;
  // [range_start_, position_) is the open range; empty if they are equal.
  uint64_t range_start_;
  uint64_t unproved_bytes_ = 0;
  bool finished_ = false;
};

// Fills one chunk from maps that cannot change meanwhile.
Result<FillOutcome> FillFromMaps(ExtentSource* target, ExtentSource* base, uint64_t size_bytes,
                                 const FillLimits& limits, Span<uint8_t> buffer);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_SCAN_FILL_H_
