// The bytes of the messages, and that they stay inside the buffer.
#include "native/scan/message_writer.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "test/native/wire.h"

namespace blockdelta {
namespace {

using test::Message;
using test::WireReader;

// Exactly as large as it says, so that a sanitizer sees a write behind it.
struct Buffer {
  explicit Buffer(size_t size) : size(size), bytes(new uint8_t[size]) {}
  Span<uint8_t> span() const { return Span<uint8_t>(bytes.get(), size); }

  size_t size;
  std::unique_ptr<uint8_t[]> bytes;
};

std::vector<Message> Read(const Buffer& buffer, const MessageWriter& writer) {
  auto messages = WireReader(buffer.bytes.get(), writer.bytes()).Messages();
  EXPECT_TRUE(messages.has_value());
  if (!messages.has_value()) return {};
  EXPECT_EQ(messages->size(), writer.messages());
  return *messages;
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

TEST(MessageWriterTest, WritesNumbersOfEveryLength) {
  std::vector<uint64_t> values;
  for (unsigned bit = 0; bit < 63; bit++) {
    for (const uint64_t value : {(uint64_t{1} << bit) - 1, uint64_t{1} << bit}) {
      if (value > 0) values.push_back(value);
    }
  }
  values.push_back(INT64_MAX);
  const Buffer buffer(1 << 20);
  for (const uint64_t capacity : values) {
    MessageWriter writer(buffer.span(), capacity, 1000);
    for (const uint64_t value : values)
      EXPECT_TRUE(writer.Add(capacity, value) && writer.Add(value, 1));
    writer.Finish();
    const std::vector<Message> messages = Read(buffer, writer);
    ASSERT_EQ(messages.size(), 1u);
    EXPECT_EQ(messages[0].type, 2u);
    EXPECT_EQ(messages[0].capacity, capacity);
    for (size_t i = 0; i < values.size(); i++) {
      EXPECT_TRUE((messages[0].ranges[2 * i] == test::Range{capacity, values[i]}));
      EXPECT_TRUE((messages[0].ranges[2 * i + 1] == test::Range{values[i], 1}));
    }
  }
}

TEST(MessageWriterTest, WritesEverySizeAroundThoseOfTheTable) {
  const Buffer buffer(1 << 20);
  std::vector<test::Range> ranges;
  for (uint64_t blocks = 0; blocks <= SizeFields::kCount + 2; blocks++) {
    for (const uint64_t odd : {0, 1, 512, 4095}) {
      const uint64_t size = blocks * 4096 + odd;
      if (size > 0) ranges.push_back({blocks << 30, size});
    }
  }
  MessageWriter writer(buffer.span(), 0, ranges.size());
  for (const test::Range& range : ranges) EXPECT_TRUE(writer.Add(range.offset, range.size));
  writer.Finish();
  const std::vector<Message> messages = Read(buffer, writer);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_TRUE(messages[0].ranges == ranges);
}

TEST(MessageWriterTest, AnAppenderWritesTheSameAsSingleAdditions) {
  for (const size_t size : {4096, 5000, 20'000}) {
    const Buffer one_by_one(size);
    const Buffer together(size);
    MessageWriter expected(one_by_one.span(), 1 << 20, 100);
    MessageWriter writer(together.span(), 1 << 20, 100);
    const auto offset = [](uint64_t i) { return i * i * 4096; };
    const auto length = [](uint64_t i) { return 1 + i % 3 * 4095; };
    uint64_t added = 0;
    while (expected.Add(offset(added), length(added))) added++;
    {
      MessageWriter::Appender appender(&writer);
      for (uint64_t i = 0; i < added; i++) EXPECT_TRUE(appender.Add(offset(i), length(i)));
      EXPECT_FALSE(appender.Add(offset(added), length(added)));
    }
    EXPECT_EQ(writer.entries(), expected.entries());
    EXPECT_EQ(writer.entry_bytes(), expected.entry_bytes());
    EXPECT_EQ(writer.messages(), expected.messages());
    writer.Finish();
    expected.Finish();
    ASSERT_EQ(writer.bytes(), expected.bytes());
    EXPECT_EQ(memcmp(together.bytes.get(), one_by_one.bytes.get(), writer.bytes()), 0);
  }
}

TEST(MessageWriterTest, BeginsANewMessageWhenOneHasAsManyEntriesAsAllowed) {
  const Buffer buffer(4096);
  MessageWriter writer(buffer.span(), 1000, 3);
  for (uint64_t i = 0; i < 7; i++) EXPECT_TRUE(writer.Add(10 * i, 5));
  writer.Finish();
  std::vector<size_t> counts;
  for (const Message& message : Read(buffer, writer)) counts.push_back(message.ranges.size());
  EXPECT_TRUE((counts == std::vector<size_t>{3, 3, 1}));
  EXPECT_EQ(writer.entries(), 7u);
  EXPECT_EQ(writer.entry_bytes(), 35u);
}

TEST(MessageWriterTest, WritesTypeAndCapacityInAMessageWithoutEntries) {
  const Buffer buffer(4096);
  MessageWriter writer(buffer.span(), 77, 1);
  EXPECT_TRUE(writer.AddEmptyMessage());
  const std::vector<Message> messages = Read(buffer, writer);
  EXPECT_TRUE(messages.size() == 1 && messages[0].ranges.empty() && messages[0].capacity == 77);
  EXPECT_EQ(writer.entries(), 0u);
}

TEST(MessageWriterTest, FillsBuffersOfEverySizeAndNeverOverrunsThem) {
  for (size_t size = 0; size < 600; size++) {
    for (const uint64_t per_message : {1, 2, 8192}) {
      const Buffer buffer(size);
      MessageWriter writer(buffer.span(), INT64_MAX, per_message);
      uint64_t added = 0;
      while (writer.Add(INT64_MAX - 1000 + added, INT64_MAX)) added++;
      EXPECT_FALSE(writer.Add(1, 1));
      writer.Finish();
      EXPECT_LE(writer.bytes(), size);
      EXPECT_EQ(writer.entries(), added);
      uint64_t read = 0;
      for (const Message& message : Read(buffer, writer)) read += message.ranges.size();
      EXPECT_EQ(read, added);
      // Little is wasted: the reserve is smaller than two entries.
      EXPECT_TRUE(size < 100 || size - writer.bytes() < 60);
    }
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

TEST(MessageWriterTest, RewindsToAnEarlierStateAndWritesOn) {
  const Buffer buffer(4096);
  MessageWriter writer(buffer.span(), 1000, 4);
  for (uint64_t i = 1; i <= 6; i++) writer.Add(10 * i, 5);
  const MessageWriter::Mark mark = writer.mark();
  for (uint64_t i = 0; i < 20; i++) writer.Add(1000 + 10 * i, 7);
  writer.Rewind(mark);
  for (uint64_t i = 7; i <= 9; i++) writer.Add(10 * i, 5);
  writer.Finish();
  EXPECT_EQ(writer.entry_bytes(), 45u);
  uint64_t next = 1;
  for (const Message& message : Read(buffer, writer)) {
    for (const test::Range& range : message.ranges) {
      EXPECT_TRUE((range == test::Range{10 * next++, 5}));
    }
  }
  EXPECT_EQ(next, 10u);
}

}  // namespace
}  // namespace blockdelta
