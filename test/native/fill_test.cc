// The bytes of messages, which stay inside their buffer; and walk and merge: cases worked out by
// hand, and random ones against the slow model.
#include "native/scan/fill.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "native/scan/message_writer.h"
#include "test/native/model.h"
#include "test/native/pattern_source.h"
#include "test/native/random_seed.h"
#include "test/native/status_assertions.h"

namespace blockdelta::test {
namespace {

// Exactly as large as it says, so that a sanitizer sees a write behind it.
struct Buffer {
  explicit Buffer(size_t size) : size(size), bytes(new uint8_t[size]) {}
  Span<uint8_t> span() const { return Span<uint8_t>(bytes.get(), size); }

  size_t size;
  std::unique_ptr<uint8_t[]> bytes;
};

std::vector<Message> Read(const Buffer& buffer, const MessageWriter& writer) {
  const auto messages = WireReader(buffer.bytes.get(), writer.bytes()).Messages();
  EXPECT_TRUE(messages.has_value() && messages->size() == writer.messages());
  return messages.value_or(std::vector<Message>());
}

TEST(MessageWriterTest, WritesWhatProtobufWouldBehindAGrpcPrefix) {
  const Buffer buffer(4096);
  MessageWriter writer(buffer.span(), 1 << 20, 8192);
  EXPECT_TRUE(writer.Add(0, 4096));
  EXPECT_TRUE(writer.Add(300, 1));
  writer.Finish();
  const std::vector<uint8_t> expected = {
      0,    0,    0,    0,    18,                // not compressed, 18 bytes
      0x08, 0x02,                                // block_metadata_type: VARIABLE_LENGTH
      0x10, 0x80, 0x80, 0x40,                    // volume_capacity_bytes
      0x1A, 3,    0x10, 0x80, 0x20,              // block_metadata: no offset, 4096 bytes
      0x1A, 5,    0x08, 0xAC, 0x02, 0x10, 0x01,  // block_metadata: offset 300, 1 byte
  };
  EXPECT_EQ(std::vector<uint8_t>(buffer.bytes.get(), buffer.bytes.get() + writer.bytes()),
            expected);
}

// Every length of a number, and every size in the table of sizes with those around them.
Range SomeRange(std::mt19937_64* random) {
  const auto number = [&] { return (*random)() >> (1 + (*random)() % 63); };
  constexpr uint64_t kOdd[] = {0, 0, 1, 4095};
  const uint64_t size = (*random)() % 3 == 0
                            ? number()
                            : (*random)() % (SizeFields::kCount + 3) * 4096 + kOdd[(*random)() % 4];
  return {number(), std::max<uint64_t>(size, 1)};
}

TEST(MessageWriterTest, WritesWhatWasAddedByItselfInARowOrAfterRewindingAndFillsItsBuffer) {
  std::mt19937_64 random(Seed());
  for (int round = 0; round < 2000; round++) {
    const Buffer buffer(round < 600 ? static_cast<size_t>(round) : random() % 20'000);
    const uint64_t capacity = random() >> (1 + random() % 63);
    const uint64_t per_message = 1 + random() % (random() % 2 == 0 ? 4 : 500);
    MessageWriter writer(buffer.span(), capacity, per_message);
    std::vector<Range> added;
    uint64_t bytes = 0;
    // Adds up to so many; whether all fitted.
    const auto add = [&](auto* to, uint64_t count) {
      for (; count > 0; count--) {
        const Range range = SomeRange(&random);
        if (!to->Add(range.offset, range.size)) return false;
        added.push_back(range);
        bytes += range.size;
      }
      return true;
    };
    for (bool has_room = true; has_room;) {
      const uint64_t count = random() % 20;
      if (random() % 4 == 0) {
        const MessageWriter::Mark mark = writer.mark();
        const std::vector<Range> before = added;
        const uint64_t bytes_before = bytes;
        add(&writer, count);
        writer.Rewind(mark);
        added = before;
        bytes = bytes_before;
      }
      MessageWriter::Appender appender(&writer);
      has_room = add(&appender, count);
    }
    EXPECT_FALSE(writer.Add(INT64_MAX, INT64_MAX));
    EXPECT_EQ(writer.entries(), added.size());
    EXPECT_EQ(writer.entry_bytes(), bytes);
    writer.Finish();
    EXPECT_LE(writer.bytes(), buffer.size);
    // Little is wasted: the reserve is smaller than two entries.
    EXPECT_TRUE(buffer.size < 100 || buffer.size - writer.bytes() < 60);
    std::vector<Range> read;
    const std::vector<Message> messages = Read(buffer, writer);
    for (size_t i = 0; i < messages.size(); i++) {
      EXPECT_TRUE(messages[i].type == 2 && messages[i].capacity == capacity);
      EXPECT_TRUE(messages[i].ranges.size() == per_message || i + 1 == messages.size());
      read.insert(read.end(), messages[i].ranges.begin(), messages[i].ranges.end());
    }
    ASSERT_EQ(Text(read), Text(added));
  }
}

TEST(MessageWriterTest, NeverExceeds3Point5MiBAMessage) {
  const Buffer buffer(9 << 20);
  MessageWriter writer(buffer.span(), INT64_MAX, INT64_MAX);
  while (writer.Add(INT64_MAX, INT64_MAX)) {
  }
  writer.Finish();
  const std::vector<Message> messages = Read(buffer, writer);
  EXPECT_EQ(messages.size(), 3u);
  for (const Message& message : messages) EXPECT_LE(message.bytes, 3584 * 1024);
  EXPECT_GT(messages[0].bytes, 3584 * 1024 - 64);
}

constexpr uint64_t kMany = 1 << 20;

FillLimits Unlimited() { return {0, 0, kMany, kMany, kMany, false}; }

struct Case {
  const char* name;
  Map target;
  Map base;
  uint64_t offset;
  const char* expected;
};

// All over [0, 100).
const Case kDeltas[] = {
    {"the same data, shared on one side", {{0, 1000, 50, 0x2000}}, {{0, 1000, 50, 1}}, 0, ""},
    {"other address", {{0, 1000, 50, 0}}, {{0, 2000, 50, 0}}, 0, "0+50 "},
    {"data over a hole", {{10, 1000, 50, 0}}, {}, 0, "10+50 "},
    {"a hole over data", {}, {{10, 1000, 50, 0}}, 0, "10+50 "},
    {"unwritten over unwritten", {{0, 1, 50, 0x800}}, {{0, 9, 50, 0x800}}, 0, ""},
    {"unwritten over data", {{0, 1000, 50, 0x800}}, {{0, 1000, 50, 0}}, 0, "0+50 "},
    {"compressed, same address", {{0, 1000, 50, 8}}, {{0, 1000, 50, 8}}, 0, "0+50 "},
    {"a hole over opaque", {}, {{0, 0, 50, 0x301}}, 0, "0+50 "},
    {"a change inside an extent",
     {{0, 1000, 20, 0}, {20, 5000, 5, 0}, {25, 1025, 25, 0}},
     {{0, 1000, 10, 0}, {10, 1010, 40, 0}},
     0,
     "20+5 "},
    {"the address continues that of the previous extent",
     {{0, 1000, 10, 0}, {20, 1010, 10, 0}},
     {{0, 1000, 10, 0}, {20, 1020, 10, 0}},
     0,
     "20+10 "},
    {"neighbours for different reasons are one range",
     {{0, 1000, 10, 0}, {10, 0, 10, 8}, {20, 7000, 10, 0}},
     {{10, 0, 10, 8}, {20, 1, 15, 0}},
     0,
     "0+35 "},
    {"extents beyond the size do not count", {{90, 1000, 500, 0}}, {{200, 1, 1, 0}}, 0, "90+10 "},
    {"from inside a range", {{10, 1000, 50, 0}}, {}, 33, "33+27 "},
    {"from the first byte after a range", {{10, 1000, 50, 0}}, {}, 60, ""},
    {"from the end", {{10, 1000, 90, 0}}, {}, 100, ""},
};

TEST(FillTest, GivesDeltasWorkedOutByHand) {
  for (const Case& c : kDeltas) {
    const Call call = ScanOf(c.target, &c.base, 100);
    ASSERT_VALUE(scan, RunScan(call, 100, c.offset, 4096, Unlimited));
    EXPECT_EQ(Text(scan.ranges), c.expected) << c.name;
  }
}

TEST(FillTest, RefusesAMapOutOfOrder) {
  for (const Map& bad : {
           Map{{10, 1, 5, 0}, {5, 1, 5, 0}},   // descending
           Map{{10, 1, 5, 0}, {14, 1, 5, 0}},  // overlapping
           Map{{10, 1, 0, 0}},                 // empty
           Map{{10, 1, UINT64_MAX, 0}},        // offset wraps around
           Map{{10, UINT64_MAX - 2, 5, 0}},    // address wraps around
       }) {
    for (const Call& call : {ScanOf(bad, nullptr, 100), ScanOf({}, &bad, 100)}) {
      EXPECT_CODE(RunScan(call, 100, 0, 4096, Unlimited), "SCAN_MAP_INVALID");
    }
  }
}

TEST(FillTest, SendsAnEmptyMessageAtTheEndIfAskedAndThereWasNoOther) {
  // Of a map with one extent, or none.
  const auto messages = [](bool has_extent, uint64_t size, uint64_t offset, bool asks) {
    const Call call = ScanOf(has_extent ? Map{{10, 1, 5, 0}} : Map(), nullptr, size);
    const auto limits = [&] { return FillLimits{0, 0, kMany, kMany, kMany, asks}; };
    return ValueOf(RunScan(call, size, offset, 4096, limits)).messages;
  };
  EXPECT_EQ(messages(false, 9, 0, true), 1u);
  EXPECT_EQ(messages(false, 0, 0, true), 1u);
  EXPECT_EQ(messages(false, 9, 9, true), 1u);
  EXPECT_EQ(messages(false, 9, 0, false), 0u);
  EXPECT_EQ(messages(true, 20, 0, true), 1u);
}

TEST(FillTest, HandsOnARangeThatALimitInterruptsWithoutWritingIt) {
  const Map map = {{10, 1, 5, 0}, {15, 90, 5, 8}, {20, 1, 5, 0}};
  FillLimits limits = Unlimited();
  limits.max_extents = 2;
  ASSERT_VALUE(outcome, ScanOf(map, nullptr, 100)(limits, Buffer(4096).span()));
  EXPECT_EQ(outcome.messages, 0u);
  EXPECT_EQ(outcome.next_range_start, 10u);
  EXPECT_TRUE(outcome.next_offset > 10 && outcome.next_offset <= 20);
}

// Random maps of `units` units; addresses come from a small set so that they meet.
class RandomMaps {
 public:
  explicit RandomMaps(uint64_t seed) : random_(seed) {}

  uint64_t Below(uint64_t limit) {
    return std::uniform_int_distribution<uint64_t>(0, limit - 1)(random_);
  }

  Map Make(uint64_t units, uint64_t scale) {
    Map map;
    for (uint64_t unit = Below(4); unit < units;) {
      const uint64_t length = 1 + Below(6);
      const uint64_t displacement = 1000 + 3 * Below(3);
      map.push_back({unit * scale, (unit + displacement) * scale, length * scale, Flags()});
      unit += length + (Below(2) == 0 ? 0 : Below(5));
    }
    return map;
  }

 private:
  uint32_t Flags() {
    // LAST, MERGED, SHARED, and one of a later kernel say nothing; opaque wins over UNWRITTEN.
    constexpr uint32_t kFlags[] = {0, 0, 0, 0x800, 0x1, 0x1000, 0x2000, 0x4000};
    constexpr uint32_t kOpaque[] = {0x2, 0x4, 0x8, 0x80, 0x100, 0x200, 0x400, 0x301};
    return kFlags[Below(8)] | kFlags[Below(8)] | (Below(4) == 0 ? kOpaque[Below(8)] : 0);
  }

  std::mt19937_64 random_;
};

void CheckRandomCase(uint64_t seed) {
  RandomMaps random(seed);
  constexpr uint64_t kScales[] = {1, 512, 4096, uint64_t{1} << 40};
  const uint64_t scale = kScales[random.Below(4)];
  const uint64_t units = 1 + random.Below(120);
  const uint64_t size = units * scale - random.Below(scale);
  const Map target = random.Make(units, scale);
  const Map base = random.Make(random.Below(2) == 0 ? units : 1 + random.Below(units), scale);
  const bool has_base = random.Below(4) != 0;
  const uint64_t offset = random.Below(3) == 0 ? 0 : random.Below(size + 1);
  const size_t buffer = random.Below(2) == 0 ? 64 + random.Below(200) : 4096;
  const auto limits = [&random] {
    FillLimits limits = Unlimited();
    if (random.Below(2) == 0) limits.max_entries = 1 + random.Below(6);
    if (random.Below(2) == 0) limits.max_extents = 1 + random.Below(12);
    limits.max_entries_per_message = 1 + random.Below(4);
    return limits;
  };
  const Call call = ScanOf(target, has_base ? &base : nullptr, size);
  const Scan scan = ValueOf(RunScan(call, size, offset, buffer, limits));
  const auto expected = ExpectedRanges(target, has_base ? &base : nullptr, size, offset);
  EXPECT_EQ(Text(scan.ranges), Text(expected)) << "case " << seed;
}

TEST(FillTest, GivesTheRangesOfTheModelWhateverMapsLimitsBuffersAndOffsets) {
  const int cases = IsNightly() ? 300'000 : 15'000;
  for (int i = 0; i < cases; i++) CheckRandomCase(Seed() + static_cast<uint64_t>(i));
}

struct Pattern {
  uint64_t size;
  uint64_t extent;
  uint64_t stride;
};

TEST(FillTest, GivesTheExtentsOfAPatternWhateverTheChunks) {
  for (const auto& [size, extent, stride] :
       {Pattern{1000, 3, 10}, Pattern{1000, 10, 10}, Pattern{7, 3, 4}, Pattern{1, 1, 1 << 30},
        Pattern{INT64_MAX, INT64_MAX / 9, INT64_MAX / 5}}) {
    for (uint64_t offset = 0; offset < std::min<uint64_t>(size + 1, 40); offset++) {
      Map map;
      for (uint64_t at = 0; at < size && map.size() < 200; at += stride) {
        map.push_back({at, at, std::min(extent, size - at), 0});
      }
      const auto call = [size = size, extent = extent, stride = stride](const FillLimits& limits,
                                                                        Span<uint8_t> buffer) {
        PatternSource source(size, extent, stride);
        return FillFromMaps(&source, nullptr, size, limits, buffer);
      };
      const auto limits = [] { return FillLimits{0, 0, 2, 1, 3, false}; };
      ASSERT_VALUE(scan, RunScan(call, size, offset, 4096, limits));
      EXPECT_TRUE(scan.ranges == ExpectedRanges(map, nullptr, size, offset));
    }
  }
}

}  // namespace
}  // namespace blockdelta::test
