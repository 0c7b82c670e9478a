// Drives a scan to its end call by call, and checks what must hold for every single call: for tests
// and fuzz targets.
#ifndef BLOCKDELTA_TEST_NATIVE_CHUNKS_H_
#define BLOCKDELTA_TEST_NATIVE_CHUNKS_H_

#include <functional>
#include <memory>
#include <vector>

#include "native/scan/change_list_union.h"
#include "native/scan/fill.h"
#include "test/native/wire.h"

namespace blockdelta::test {

// One call with these limits into this buffer.
using Call = std::function<Result<FillOutcome>(const FillLimits&, Span<uint8_t>)>;
// The limits of the next call; the positions are filled in by the driver.
using NextLimits = std::function<FillLimits()>;

struct Scan {
  std::vector<Range> ranges;
  size_t calls = 0;
  size_t messages = 0;
};

// Null, or what a call has given that it must not. Ranges are in order, apart from each other and
// inside the target; `earliest` is where the next one may begin.
inline const char* BrokenRule(const FillLimits& limits, const FillOutcome& outcome,
                              const std::vector<Message>& messages, uint64_t size,
                              uint64_t* earliest) {
  uint64_t entries = 0;
  uint64_t bytes = 0;
  for (const Message& message : messages) {
    if (message.type != 2 || message.capacity != size) return "the head of a message";
    if (message.ranges.size() > limits.max_entries_per_message) return "entries in a message";
    for (const Range& range : message.ranges) {
      if (range.size == 0 || range.offset < *earliest) return "the order of ranges";
      if (range.offset >= size || range.size > size - range.offset) return "a range's end";
      *earliest = range.offset + range.size + 1;
      entries++;
      bytes += range.size;
    }
  }
  if (messages.size() != outcome.messages || entries != outcome.entries) return "counts";
  if (bytes != outcome.entry_bytes) return "bytes in entries";
  if (entries > limits.max_entries) return "entries in a call";
  if (outcome.next_offset < limits.offset || outcome.next_offset > size) return "the next offset";
  if (outcome.next_range_start > outcome.next_offset) return "the next range";
  const bool stands = outcome.next_offset == limits.offset && entries == 0 && !outcome.done;
  return stands ? "progress" : nullptr;
}

// `size` is that of the target. Fails as a call does, or with BROKEN_CALL.
inline Result<Scan> RunScan(const Call& call, uint64_t size, uint64_t offset, size_t buffer_bytes,
                            const NextLimits& next_limits) {
  Scan scan;
  const std::unique_ptr<uint8_t[]> buffer(new uint8_t[buffer_bytes]);
  uint64_t range_start = offset;
  uint64_t earliest = offset;
  for (bool done = false; !done;) {
    FillLimits limits = next_limits();
    limits.offset = offset;
    limits.range_start = range_start;
    Result<FillOutcome> outcome = call(limits, Span<uint8_t>(buffer.get(), buffer_bytes));
    RETURN_IF_ERROR(outcome);
    const bool fits = outcome->bytes <= buffer_bytes;
    const auto messages = WireReader(buffer.get(), fits ? outcome->bytes : 0).Messages();
    const char* const broken = !fits || !messages.has_value()
                                   ? "the bytes in the buffer"
                                   : BrokenRule(limits, *outcome, *messages, size, &earliest);
    if (broken != nullptr) return Status::Reason("BROKEN_CALL", "fill", "", broken);
    scan.calls++;
    scan.messages += messages->size();
    for (const Message& message : *messages) {
      scan.ranges.insert(scan.ranges.end(), message.ranges.begin(), message.ranges.end());
    }
    done = outcome->done;
    offset = outcome->next_offset;
    range_start = outcome->next_range_start;
  }
  return scan;
}

// What change lists answer, in little calls.
inline Result<std::vector<Range>> ScanLists(const ChangeListRequest& request) {
  Result<Scan> scan =
      RunScan([&](const FillLimits& limits,
                  Span<uint8_t> buffer) { return FillFromLists(request, limits, buffer); },
              request.size_bytes, 0, 1 << 16, [] { return FillLimits{0, 0, 100, 30, 70, true}; });
  RETURN_IF_ERROR(scan);
  return scan->ranges;
}

}  // namespace blockdelta::test

#endif  // BLOCKDELTA_TEST_NATIVE_CHUNKS_H_
