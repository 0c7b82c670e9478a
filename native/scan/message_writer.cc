#include "native/scan/message_writer.h"

#include <algorithm>
#include <cstring>

namespace blockdelta {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "PutVarint stores words as bytes");

constexpr size_t kPrefixBytes = 5;
constexpr size_t kVarintBytes = 9;  // For values below 2^63.
constexpr size_t kHeadBytes = kPrefixBytes + 2 + 1 + kVarintBytes;
// Tag, length, tag, offset, tag, size; PutVarint() may also overwrite up to 7 bytes behind.
constexpr size_t kEntryBytes = 2 + 2 * (1 + kVarintBytes) + 7;

constexpr uint8_t kTypeTag = 0x08;
constexpr uint8_t kTypeVariableLength = 2;
constexpr uint8_t kCapacityTag = 0x10;
constexpr uint8_t kBlockMetadataTag = 0x1A;
constexpr uint8_t kByteOffsetTag = 0x08;
constexpr uint8_t kSizeBytesTag = 0x10;

// Writes `value` (below 2^63) and returns the end; may overwrite 7 bytes after it. Spreads the
// 7-bit groups over a word in three steps: the numbers of a list vary in length, and a loop over
// the groups would cause constant branch mispredictions.
inline uint8_t* PutVarint(uint8_t* to, uint64_t value) {
  if (value >= uint64_t{1} << 56) {
    for (; value >= 0x80; value >>= 7) *to++ = static_cast<uint8_t>(value | 0x80);
    *to++ = static_cast<uint8_t>(value);
    return to;
  }
  const unsigned bits = 64 - static_cast<unsigned>(__builtin_clzll(value | 1));
  const unsigned length = (bits + 6) / 7;
  uint64_t word = (value & 0x000000000FFFFFFF) | ((value & 0x00FFFFFFF0000000) << 4);
  word = (word & 0x00003FFF00003FFF) | ((word & 0x0FFFC0000FFFC000) << 2);
  word = (word & 0x007F007F007F007F) | ((word & 0x3F803F803F803F80) << 1);
  // The continuation bit of all bytes but the last.
  word |= 0x8080808080808080 & ((uint64_t{1} << (8 * (length - 1))) - 1);
  std::memcpy(to, &word, sizeof word);
  return to + length;
}

}  // namespace

MessageWriter::MessageWriter(Span<uint8_t> buffer, uint64_t capacity_bytes,
                             uint64_t entries_per_message)
    : buffer_(buffer),
      capacity_bytes_(capacity_bytes),
      entries_per_message_(entries_per_message),
      cursor_(buffer.data()) {}

bool MessageWriter::BeginMessage() {
  const size_t left = buffer_.size() - bytes();
  if (left < kHeadBytes + kEntryBytes) return false;
  Finish();
  message_ = cursor_;
  message_limit_ = message_ + std::min(left, kMaxMessageBytes) - kEntryBytes + 1;
  message_entries_ = entries_per_message_;
  messages_++;
  cursor_ += kPrefixBytes;
  *cursor_++ = kTypeTag;
  *cursor_++ = kTypeVariableLength;
  if (capacity_bytes_ != 0) {
    *cursor_++ = kCapacityTag;
    cursor_ = PutVarint(cursor_, capacity_bytes_);
  }
  return true;
}

void MessageWriter::WriteEntry(uint64_t offset, uint64_t size) {
  uint8_t* const entry = cursor_;
  uint8_t* to = entry + 2;
  if (offset != 0) {
    *to++ = kByteOffsetTag;
    to = PutVarint(to, offset);
  }
  *to++ = kSizeBytesTag;
  to = PutVarint(to, size);
  entry[0] = kBlockMetadataTag;
  // At most 20 bytes, so its length is one byte.
  entry[1] = static_cast<uint8_t>(to - entry - 2);
  cursor_ = to;
}

bool MessageWriter::AddEmptyMessage() {
  if (!BeginMessage()) return false;
  Finish();
  return true;
}

void MessageWriter::Finish() {
  if (message_ == nullptr) return;
  const auto length = static_cast<uint32_t>(cursor_ - message_ - kPrefixBytes);
  message_[0] = 0;  // Not compressed.
  message_[1] = static_cast<uint8_t>(length >> 24);
  message_[2] = static_cast<uint8_t>(length >> 16);
  message_[3] = static_cast<uint8_t>(length >> 8);
  message_[4] = static_cast<uint8_t>(length);
  message_ = nullptr;
  message_limit_ = nullptr;
  message_entries_ = 0;
}

MessageWriter::Mark MessageWriter::mark() const {
  return {message_, message_limit_, cursor_, message_entries_, messages_, entries_, entry_bytes_};
}

void MessageWriter::Rewind(const Mark& mark) {
  message_ = mark.message;
  message_limit_ = mark.message_limit;
  cursor_ = mark.cursor;
  message_entries_ = mark.message_entries;
  messages_ = mark.messages;
  entries_ = mark.entries;
  entry_bytes_ = mark.entry_bytes;
}

}  // namespace blockdelta
