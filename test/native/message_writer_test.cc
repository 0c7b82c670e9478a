// The bytes of the messages, and that they stay inside the buffer.
#include "native/scan/message_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "test/native/random_seed.h"
#include "test/native/wire.h"

namespace blockdelta {
namespace {

using test::Message;
using test::Range;
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
  std::mt19937_64 random(test::Seed());
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
    ASSERT_EQ(test::Text(read), test::Text(added));
  }
}

TEST(MessageWriterTest, WritesTypeAndCapacityInAMessageWithoutEntries) {
  const Buffer buffer(4096);
  MessageWriter writer(buffer.span(), 77, 1);
  EXPECT_TRUE(writer.AddEmptyMessage());
  const std::vector<Message> messages = Read(buffer, writer);
  EXPECT_TRUE(messages.size() == 1 && messages[0].ranges.empty() && messages[0].capacity == 77);
  EXPECT_EQ(writer.entries(), 0u);
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

}  // namespace
}  // namespace blockdelta
