// What fuzz targets share: the input as numbers, and a check that ends the program.
#ifndef BLOCKDELTA_TEST_FUZZ_FUZZ_INPUT_H_
#define BLOCKDELTA_TEST_FUZZ_FUZZ_INPUT_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace blockdelta::test {

inline void Check(bool condition) {
  if (!condition) std::abort();
}

// Zeros after its end.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}

  bool empty() const { return at_ == end_; }
  uint64_t Byte() { return at_ == end_ ? 0 : *at_++; }
  // Small numbers mostly, sometimes any 64 bits, and two bytes where a target wants them.
  uint64_t Number(uint64_t two_bytes_from = 0xF0) {
    const uint64_t first = Byte();
    if (first < two_bytes_from) return first;
    uint64_t value = 0;
    for (int i = first < 0xF0 ? 6 : 0; i < 8; i++) value = value << 8 | Byte();
    return value;
  }

 private:
  const uint8_t* at_;
  const uint8_t* end_;
};

}  // namespace blockdelta::test

#endif  // BLOCKDELTA_TEST_FUZZ_FUZZ_INPUT_H_
