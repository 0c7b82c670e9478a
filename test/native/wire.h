// An independent reader of what MessageWriter writes: gRPC frames of metadata responses.
//
// Shares no code with the writer; refuses everything that proto3 would not write.
#ifndef BLOCKDELTA_TEST_NATIVE_WIRE_H_
#define BLOCKDELTA_TEST_NATIVE_WIRE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace blockdelta::test {

struct Range {
  uint64_t offset;
  uint64_t size;
  bool operator==(const Range& other) const { return offset == other.offset && size == other.size; }
};

// Appends a range; one that touches the last makes that longer.
inline void AddRange(std::vector<Range>* ranges, uint64_t offset, uint64_t size) {
  if (!ranges->empty() && ranges->back().offset + ranges->back().size == offset) {
    ranges->back().size += size;
  } else {
    ranges->push_back({offset, size});
  }
}

// As failures show them.
inline std::string Text(const std::vector<Range>& ranges) {
  std::string text;
  for (const Range& range : ranges) {
    text += std::to_string(range.offset) + "+" + std::to_string(range.size) + " ";
  }
  return text;
}

struct Message {
  uint64_t type = 0;
  uint64_t capacity = 0;
  std::vector<Range> ranges;
  size_t bytes = 0;  // With its prefix.
};

class WireReader {
 public:
  WireReader(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}

  // All messages, or nothing if anything is malformed.
  std::optional<std::vector<Message>> Messages() {
    std::vector<Message> messages;
    while (at_ < end_) {
      if (end_ - at_ < 5 || at_[0] != 0) return std::nullopt;
      size_t length = 0;
      for (int i = 1; i < 5; i++) length = length << 8 | at_[i];
      if (length > static_cast<size_t>(end_ - at_) - 5) return std::nullopt;
      const uint8_t* const stop = at_ + 5 + length;
      at_ += 5;
      messages.emplace_back();
      messages.back().bytes = 5 + length;
      Message* const message = &messages.back();
      if (!ReadFields(stop, &message->type, &message->capacity, &message->ranges)) {
        return std::nullopt;
      }
    }
    return messages;
  }

 private:
  // Fields 1 and 2 are numbers, field 3 is a range: the message has some, a range has none.
  bool ReadFields(const uint8_t* stop, uint64_t* first, uint64_t* second,
                  std::vector<Range>* ranges) {
    while (at_ < stop) {
      const uint8_t tag = *at_++;
      uint64_t value = 0;
      // proto3 leaves fields out that are zero.
      if (!ReadVarint(stop, &value) || value == 0) return false;
      if (tag == 1 << 3 || tag == 2 << 3) {
        *(tag == 1 << 3 ? first : second) = value;
        continue;
      }
      Range range = {0, 0};
      if (tag != (3 << 3 | 2) || ranges == nullptr) return false;
      if (value > static_cast<uint64_t>(stop - at_)) return false;
      if (!ReadFields(at_ + value, &range.offset, &range.size, nullptr)) return false;
      ranges->push_back(range);
    }
    return true;
  }

  bool ReadVarint(const uint8_t* stop, uint64_t* value) {
    *value = 0;
    for (unsigned shift = 0; at_ < stop && shift < 64; shift += 7) {
      const uint8_t byte = *at_++;
      *value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if ((byte & 0x80) == 0) return shift == 0 || byte != 0;
    }
    return false;
  }

  const uint8_t* at_;
  const uint8_t* end_;
};

}  // namespace blockdelta::test

#endif  // BLOCKDELTA_TEST_NATIVE_WIRE_H_
