// Writes GetMetadataAllocatedResponse and GetMetadataDeltaResponse messages in their wire format,
// each after its 5-byte gRPC prefix, into a buffer owned by the caller.
//
// Both messages have the same fields: block_metadata_type = 1 (enum), volume_capacity_bytes = 2
// (int64), block_metadata = 3, repeated { byte_offset = 1 (int64), size_bytes = 2 (int64) }. Zero
// fields are omitted, as in proto3. Knows nothing of the origin of the ranges.
#ifndef BLOCKDELTA_NATIVE_SCAN_MESSAGE_WRITER_H_
#define BLOCKDELTA_NATIVE_SCAN_MESSAGE_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "native/base/span.h"

namespace blockdelta {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "PutVarint stores words as bytes");

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
  const unsigned length = (bits * 9 + 64) / 64;  // In groups of 7 bits, rounded up; no division.
  uint64_t word = (value & 0x000000000FFFFFFF) | ((value & 0x00FFFFFFF0000000) << 4);
  word = (word & 0x00003FFF00003FFF) | ((word & 0x0FFFC0000FFFC000) << 2);
  word = (word & 0x007F007F007F007F) | ((word & 0x3F803F803F803F80) << 1);
  // The continuation bit of all bytes but the last.
  word |= 0x8080808080808080 & ((uint64_t{1} << (8 * (length - 1))) - 1);
  std::memcpy(to, &word, sizeof word);
  return to + length;
}

// The field size_bytes of an entry, for the sizes that almost all entries have: multiples of 4 KiB
// below 256 KiB.
class SizeFields {
 public:
  static constexpr uint64_t kCount = 64;
  static constexpr unsigned kShift = 12;
  static constexpr uint8_t kTag = 0x10;

  constexpr SizeFields() : fields_{} {
    for (uint64_t i = 0; i < kCount; i++) {
      uint64_t field = kTag;
      unsigned bytes = 1;
      for (uint64_t value = i << kShift; value != 0; value >>= 7) {
        field |= ((value & 0x7f) | (value >= 0x80 ? 0x80 : 0)) << (8 * bytes++);
      }
      fields_[i] = field | uint64_t{bytes} << 56;
    }
  }

  // The position of a size in the table; kCount or more if it is not there.
  static uint64_t Find(uint64_t size) { return size >> kShift | size << (64 - kShift); }
  // The bytes of the field, at most four; the last of the eight bytes holds their number.
  uint64_t operator[](uint64_t position) const { return fields_[position]; }

 private:
  uint64_t fields_[kCount];
};
inline constexpr SizeFields kSizeFields;

// Writes an entry and returns its end; may overwrite 7 bytes after it. REQUIRES: size > 0; both
// below 2^63.
inline uint8_t* PutEntry(uint8_t* entry, uint64_t offset, uint64_t size) {
  constexpr unsigned kBlockMetadataTag = 0x1A;
  constexpr uint8_t kByteOffsetTag = 0x08;
  uint8_t* to = entry + 2;
  if (offset != 0) {
    *to = kByteOffsetTag;
    to = PutVarint(to + 1, offset);
  }
  const uint64_t position = SizeFields::Find(size);
  if (position < SizeFields::kCount) {
    const uint64_t field = kSizeFields[position];
    std::memcpy(to, &field, sizeof field);
    to += field >> 56;
  } else {
    *to = SizeFields::kTag;
    to = PutVarint(to + 1, size);
  }
  // The entry has at most 20 bytes, so its length is one byte.
  const auto length = static_cast<unsigned>(to - entry - 2);
  const auto head = static_cast<uint16_t>(kBlockMetadataTag | length << 8);
  std::memcpy(entry, &head, sizeof head);
  return to;
}

class MessageWriter {
 public:
  // A buffer of this size fits a message with one entry.
  static constexpr size_t kMinBufferBytes = 4096;
  // Clients refuse messages above 4 MiB; this limit, prefix included, is well below.
  static constexpr size_t kMaxMessageBytes = 3584 * 1024;

  // Values must be below 2^63. REQUIRES: entries_per_message >= 1.
  MessageWriter(Span<uint8_t> buffer, uint64_t capacity_bytes, uint64_t entries_per_message);

  // Adds an entry, in a new message if necessary. False if it might not fit; nothing is written
  // then. An entry always fits in an unused buffer of kMinBufferBytes. REQUIRES: size > 0.
  bool Add(uint64_t offset, uint64_t size) { return Appender(this).Add(offset, size); }

  // Adds many entries as Add() does. The appender's copies stay in registers, whereas a write to
  // the buffer could change any member of the writer. The writer is complete again when the
  // appender ends; nothing else may use the writer before.
  class Appender {
   public:
    explicit Appender(MessageWriter* writer) : writer_(writer) { Load(); }
    Appender(const Appender&) = delete;
    Appender& operator=(const Appender&) = delete;
    ~Appender() { Store(); }

    bool Add(uint64_t offset, uint64_t size) {
      if (cursor_ >= limit_ || left_ == 0) {
        Store();
        const bool has_room = writer_->BeginMessage();
        Load();
        if (!has_room) return false;
      }
      cursor_ = PutEntry(cursor_, offset, size);
      left_--;
      entry_bytes_ += size;
      return true;
    }

   private:
    void Load() {
      cursor_ = writer_->cursor_;
      limit_ = writer_->message_limit_;
      left_ = writer_->message_entries_;
      entry_bytes_ = writer_->entry_bytes_;
    }
    void Store() {
      writer_->cursor_ = cursor_;
      writer_->entries_ += writer_->message_entries_ - left_;
      writer_->message_entries_ = left_;
      writer_->entry_bytes_ = entry_bytes_;
    }

    MessageWriter* const writer_;
    uint8_t* cursor_;
    uint8_t* limit_;
    uint64_t left_;
    uint64_t entry_bytes_;
  };

  // Adds a message without entries. False if it might not fit.
  bool AddEmptyMessage();

  // Ends the open message. A following Add() starts a new one.
  void Finish();

  uint64_t messages() const { return messages_; }
  // Bytes of the buffer in use; complete only after Finish().
  size_t bytes() const { return static_cast<size_t>(cursor_ - buffer_.data()); }
  uint64_t entries() const { return entries_; }
  uint64_t entry_bytes() const { return entry_bytes_; }

  // The state that Rewind() restores.
  struct Mark {
    uint8_t* message;
    uint8_t* message_limit;
    uint8_t* cursor;
    uint64_t message_entries;
    uint64_t messages;
    uint64_t entries;
    uint64_t entry_bytes;
  };
  Mark mark() const;
  void Rewind(const Mark& mark);

 private:
  bool BeginMessage();

  const Span<uint8_t> buffer_;
  const uint64_t capacity_bytes_;
  const uint64_t entries_per_message_;
  uint8_t* message_ = nullptr;        // Prefix of the open message; null if none is open.
  uint8_t* message_limit_ = nullptr;  // An entry that starts below it fits buffer and message.
  uint8_t* cursor_;
  uint64_t message_entries_ = 0;  // Entries that the open message may still take.
  uint64_t messages_ = 0;
  uint64_t entries_ = 0;
  uint64_t entry_bytes_ = 0;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_SCAN_MESSAGE_WRITER_H_
