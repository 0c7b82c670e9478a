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

#include "native/base/span.h"

namespace blockdelta {

class MessageWriter {
 public:
  // A buffer of this size fits a message with one entry.
  static constexpr size_t kMinBufferBytes = 4096;
  // Clients refuse messages above 4 MiB; this limit, prefix included, is well below.
  static constexpr size_t kMaxMessageBytes = 3584 * 1024;

  // Values must be below 2^63. REQUIRES: entries_per_message >= 1.
  MessageWriter(Span<uint8_t> buffer, uint64_t capacity_bytes, uint64_t entries_per_message);

  // Adds an entry, in a new message if necessary. False: it might not fit, and nothing was written.
  // An entry always fits in an unused buffer of kMinBufferBytes. REQUIRES: size > 0.
  bool Add(uint64_t offset, uint64_t size) {
    if ((cursor_ >= message_limit_ || message_entries_ == 0) && !BeginMessage()) return false;
    WriteEntry(offset, size);
    message_entries_--;
    entries_++;
    entry_bytes_ += size;
    return true;
  }

  // Adds a message without entries. False: it might not fit.
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
  void WriteEntry(uint64_t offset, uint64_t size);

  const Span<uint8_t> buffer_;
  const uint64_t capacity_bytes_;
  const uint64_t entries_per_message_;
  uint8_t* message_ = nullptr;        // Prefix of the open message; null: none is open.
  uint8_t* message_limit_ = nullptr;  // An entry that starts below it fits buffer and message.
  uint8_t* cursor_;
  uint64_t message_entries_ = 0;  // Entries that the open message may still take.
  uint64_t messages_ = 0;
  uint64_t entries_ = 0;
  uint64_t entry_bytes_ = 0;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_SCAN_MESSAGE_WRITER_H_
