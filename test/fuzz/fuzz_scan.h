// Drives a scan to its end for fuzz targets, and checks what must hold for every single call.
#ifndef BLOCKDELTA_TEST_FUZZ_FUZZ_SCAN_H_
#define BLOCKDELTA_TEST_FUZZ_FUZZ_SCAN_H_

#include <memory>
#include <vector>

#include "native/scan/fill.h"
#include "test/fuzz/fuzz_input.h"
#include "test/native/wire.h"

namespace blockdelta::test {

// Ranges are in order, apart from each other and inside the domain. Fails as a call of `fill`, with
// limits and a buffer, does.
template <typename Fill>
Result<std::vector<Range>> ScanInCalls(const Fill& fill, uint64_t size, FillLimits limits,
                                       size_t buffer_bytes, unsigned* calls = nullptr) {
  const std::unique_ptr<uint8_t[]> buffer(new uint8_t[buffer_bytes]);
  std::vector<Range> ranges;
  uint64_t earliest = limits.range_start = limits.offset;
  for (bool done = false; !done;) {
    Result<FillOutcome> outcome = fill(limits, Span<uint8_t>(buffer.get(), buffer_bytes));
    if (!outcome.ok()) return outcome.TakeStatus();
    Check(outcome->bytes <= buffer_bytes && outcome->entries <= limits.max_entries);
    const auto messages = WireReader(buffer.get(), outcome->bytes).Messages();
    Check(messages.has_value() && messages->size() == outcome->messages);
    for (const Message& message : *messages) {
      Check(message.type == 2 && message.capacity == size);
      Check(message.ranges.size() <= limits.max_entries_per_message);
      for (const Range& range : message.ranges) {
        Check(range.size > 0 && range.offset >= earliest && range.offset < size &&
              range.size <= size - range.offset);
        earliest = range.offset + range.size + 1;
        ranges.push_back(range);
      }
    }
    done = outcome->done;
    if (calls != nullptr) (*calls)++;
    Check(done || outcome->entries > 0 || outcome->next_offset > limits.offset);
    limits.offset = outcome->next_offset;
    limits.range_start = outcome->next_range_start;
  }
  return ranges;
}

}  // namespace blockdelta::test

#endif  // BLOCKDELTA_TEST_FUZZ_FUZZ_SCAN_H_
