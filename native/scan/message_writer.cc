#include "native/scan/message_writer.h"

#include <algorithm>
#include <cstring>

namespace blockdelta {
namespace {

constexpr size_t kPrefixBytes = 5;
constexpr size_t kVarintBytes = 9;  // For values below 2^63.
constexpr size_t kHeadBytes = kPrefixBytes + 2 + 1 + kVarintBytes;
// Tag, length, tag, offset, tag, size; PutVarint() may also overwrite up to 7 bytes behind.
constexpr size_t kEntryBytes = 2 + 2 * (1 + kVarintBytes) + 7;

constexpr uint8_t kTypeTag = 0x08;
constexpr uint8_t kTypeVariableLength = 2;
constexpr uint8_t kCapacityTag = 0x10;
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
