// Reads back the ranges that a MessageWriter has written, for callers that want the outcome of a
// scan and not its messages. Reads only what that class writes in this process, never foreign
// bytes.
#ifndef BLOCKDELTA_NATIVE_SCAN_MESSAGE_ENTRIES_H_
#define BLOCKDELTA_NATIVE_SCAN_MESSAGE_ENTRIES_H_

#include <cstddef>
#include <cstdint>

#include "native/base/span.h"
#include "native/base/status.h"

namespace blockdelta {

class MessageEntries {
 public:
  // Whole messages, each after its gRPC prefix.
  explicit MessageEntries(Span<const uint8_t> messages)
      : at_(messages.begin()), end_(messages.end()), message_end_(messages.begin()) {}

  // False if there are no more.
  bool Next(uint64_t* offset, uint64_t* size) {
    while (at_ == message_end_) {
      if (at_ == end_) return false;
      EnterMessage();
    }
    at_ += 2;  // Tag and length of the entry, which begins with its offset unless that is 0.
    *offset = 0;
    if (*at_++ == kByteOffsetTag) {
      *offset = Varint();
      at_++;
    }
    *size = Varint();
    return true;
  }

 private:
  static constexpr uint8_t kByteOffsetTag = 0x08;
  static constexpr uint8_t kCapacityTag = 0x10;
  static constexpr size_t kPrefixBytes = 5;

  // Moves behind the prefix and the fields before the first entry.
  void EnterMessage() {
    size_t length = 0;
    for (size_t i = 1; i < kPrefixBytes; i++) length = length << 8 | at_[i];
    at_ += kPrefixBytes;
    message_end_ = at_ + length;
    at_ += 2;
    if (at_ < message_end_ && *at_ == kCapacityTag) {
      at_++;
      Varint();
    }
  }

  uint64_t Varint() {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const uint8_t byte = *at_++;
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return value;
    }
  }

  const uint8_t* at_;
  const uint8_t* const end_;
  const uint8_t* message_end_;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_SCAN_MESSAGE_ENTRIES_H_
