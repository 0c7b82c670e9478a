#include "native/thin/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

namespace blockdelta {
namespace {

// Bits reflected.
constexpr uint32_t kPolynomial = 0x82f63b78;
constexpr size_t kWord = 8;

using Table = std::array<uint32_t, 256>;

// Table i continues over a byte that i more bytes follow.
constexpr std::array<Table, kWord> MakeTables() {
  std::array<Table, kWord> tables{};
  for (uint32_t byte = 0; byte < 256; byte++) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t i = 1; i < kWord; i++) {
    for (uint32_t byte = 0; byte < 256; byte++) {
      const uint32_t crc = tables[i - 1][byte];
      tables[i][byte] = crc >> 8 ^ tables[0][crc & 0xff];
    }
  }
  return tables;
}

constexpr std::array<Table, kWord> kTables = MakeTables();

uint64_t LoadWord(const uint8_t* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

// The words that `bytes` has whole go through `word`, the rest through `byte`.
#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t HardwareCrc32c(uint32_t crc, const uint8_t* data,
                                                          size_t bytes) {
  uint64_t wide = crc;
  for (; bytes >= kWord; data += kWord, bytes -= kWord) wide = _mm_crc32_u64(wide, LoadWord(data));
  crc = static_cast<uint32_t>(wide);
  for (; bytes > 0; data++, bytes--) crc = _mm_crc32_u8(crc, *data);
  return crc;
}

bool HasHardware() { return __builtin_cpu_supports("sse4.2") != 0; }
#elif defined(__ARM_FEATURE_CRC32)
uint32_t HardwareCrc32c(uint32_t crc, const uint8_t* data, size_t bytes) {
  for (; bytes >= kWord; data += kWord, bytes -= kWord) crc = __crc32cd(crc, LoadWord(data));
  for (; bytes > 0; data++, bytes--) crc = __crc32cb(crc, *data);
  return crc;
}

constexpr bool HasHardware() { return true; }
#else
uint32_t HardwareCrc32c(uint32_t crc, const uint8_t* data, size_t bytes) {
  return PortableCrc32c(crc, data, bytes);
}

constexpr bool HasHardware() { return false; }
#endif

}  // namespace

uint32_t PortableCrc32c(uint32_t crc, const uint8_t* data, size_t bytes) {
  for (; bytes >= kWord; data += kWord, bytes -= kWord) {
    const uint64_t word = LoadWord(data) ^ crc;
    crc = 0;
    for (size_t i = 0; i < kWord; i++) crc ^= kTables[kWord - 1 - i][word >> (8 * i) & 0xff];
  }
  for (; bytes > 0; data++, bytes--) crc = crc >> 8 ^ kTables[0][(crc ^ *data) & 0xff];
  return crc;
}

uint32_t Crc32c(uint32_t crc, const uint8_t* data, size_t bytes) {
  return HasHardware() ? HardwareCrc32c(crc, data, bytes) : PortableCrc32c(crc, data, bytes);
}

}  // namespace blockdelta
