// Drives a scan to its end call by call, and checks what must hold for every single call.
#ifndef BLOCKDELTA_TEST_NATIVE_CHUNKS_H_
#define BLOCKDELTA_TEST_NATIVE_CHUNKS_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "native/scan/change_list_union.h"
#include "native/scan/fill.h"
#include "test/native/status_assertions.h"
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
  size_t messages_without_entries = 0;
  uint64_t unproved_bytes = 0;
  uint64_t rescans = 0;
  bool complete = false;
};

inline void CheckCall(const FillLimits& limits, const FillOutcome& outcome,
                      const std::vector<Message>& messages, uint64_t capacity) {
  uint64_t entries = 0;
  uint64_t bytes = 0;
  for (const Message& message : messages) {
    EXPECT_EQ(message.type, 2u);
    EXPECT_EQ(message.capacity, capacity);
    EXPECT_LE(message.ranges.size(), limits.max_entries_per_message);
    entries += message.ranges.size();
    for (const Range& range : message.ranges) bytes += range.size;
  }
  EXPECT_EQ(messages.size(), outcome.messages);
  EXPECT_EQ(entries, outcome.entries);
  EXPECT_EQ(bytes, outcome.entry_bytes);
  EXPECT_LE(entries, limits.max_entries);
  EXPECT_TRUE(outcome.next_offset >= limits.offset && outcome.next_offset <= capacity);
  EXPECT_LE(outcome.next_range_start, outcome.next_offset);
  const bool progress = outcome.next_offset > limits.offset || entries > 0 || outcome.done;
  EXPECT_TRUE(progress);
}

// `size` is that of the target. A scan that fails or makes no progress ends incomplete.
inline Scan RunScan(const Call& call, uint64_t size, uint64_t offset, size_t buffer_bytes,
                    const NextLimits& next_limits) {
  Scan scan;
  const std::unique_ptr<uint8_t[]> buffer(new uint8_t[buffer_bytes]);
  uint64_t range_start = offset;
  for (;;) {
    FillLimits limits = next_limits();
    limits.offset = offset;
    limits.range_start = range_start;
    Result<FillOutcome> outcome = call(limits, Span<uint8_t>(buffer.get(), buffer_bytes));
    scan.calls++;
    EXPECT_OK(outcome);
    if (!outcome.ok()) return scan;
    EXPECT_LE(outcome->bytes, buffer_bytes);
    if (outcome->bytes > buffer_bytes) return scan;
    const auto messages = WireReader(buffer.get(), outcome->bytes).Messages();
    EXPECT_TRUE(messages.has_value());
    if (!messages.has_value()) return scan;
    CheckCall(limits, *outcome, *messages, size);
    for (const Message& message : *messages) {
      scan.messages++;
      if (message.ranges.empty()) scan.messages_without_entries++;
      scan.ranges.insert(scan.ranges.end(), message.ranges.begin(), message.ranges.end());
    }
    scan.unproved_bytes += outcome->unproved_bytes;
    scan.rescans += outcome->rescans;
    const bool stands = outcome->next_offset == offset && outcome->entries == 0;
    offset = outcome->next_offset;
    range_start = outcome->next_range_start;
    if (outcome->done) break;
    EXPECT_FALSE(stands);
    if (stands) return scan;
  }
  scan.complete = true;
  return scan;
}

// What change lists answer, in little calls.
inline std::vector<Range> ScanLists(const ChangeListRequest& request) {
  const Call call = [&](const FillLimits& limits, Span<uint8_t> buffer) {
    return FillFromLists(request, limits, buffer);
  };
  const Scan scan = RunScan(call, request.size_bytes, 0, 1 << 16,
                            [] { return FillLimits{0, 0, 100, 30, 70, true}; });
  EXPECT_TRUE(scan.complete);
  return scan.ranges;
}

// The code of answering from lists in one call; empty if that works.
inline std::string CodeOfLists(const ChangeListRequest& request) {
  std::vector<uint8_t> buffer(1 << 16);
  return CodeOf(FillFromLists(request, {0, 0, 10'000, 10'000, 10'000, true},
                              Span<uint8_t>(buffer.data(), buffer.size())));
}

}  // namespace blockdelta::test

#endif  // BLOCKDELTA_TEST_NATIVE_CHUNKS_H_
