#include "native/base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace blockdelta {
namespace {

// Bit-reflected.
constexpr uint32_t kPolynomial = 0x82f63b78;
constexpr size_t kWord = 8;

using Table = std::array<uint32_t, 256>;

// Table i advances the checksum over a byte followed by i more bytes.
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

#if defined(__x86_64__)
#define BLOCKDELTA_CRC32C_TARGET __attribute__((target("sse4.2")))

bool HasHardware() { return __builtin_cpu_supports("sse4.2") != 0; }

BLOCKDELTA_CRC32C_TARGET inline uint64_t StepWord(uint64_t crc, uint64_t word) {
  return _mm_crc32_u64(crc, word);
}

BLOCKDELTA_CRC32C_TARGET inline uint32_t StepByte(uint32_t crc, uint8_t byte) {
  return _mm_crc32_u8(crc, byte);
}
#elif defined(__aarch64__)
// The instruction is optional in Armv8.0, so it needs a target attribute and a run-time check.
#if defined(__clang__)
#define BLOCKDELTA_CRC32C_TARGET __attribute__((target("crc")))
#else
#define BLOCKDELTA_CRC32C_TARGET __attribute__((target("+crc")))
#endif

bool HasHardware() { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }

BLOCKDELTA_CRC32C_TARGET inline uint64_t StepWord(uint64_t crc, uint64_t word) {
  return __crc32cd(static_cast<uint32_t>(crc), word);
}

BLOCKDELTA_CRC32C_TARGET inline uint32_t StepByte(uint32_t crc, uint8_t byte) {
  return __crc32cb(crc, byte);
}
#endif

#if defined(BLOCKDELTA_CRC32C_TARGET)
// The instruction has a latency of three cycles and a throughput of one per cycle, so three lanes
// of this length are processed in parallel. Three lanes cover a block except its checksum and 12
// bytes.
constexpr size_t kLaneBytes = 1360;

// The effect of kLaneBytes zero bytes on each byte of the checksum.
constexpr std::array<Table, 4> MakeLaneTables() {
  std::array<uint32_t, 32> columns{};
  for (unsigned bit = 0; bit < 32; bit++) {
    uint32_t crc = uint32_t{1} << bit;
    for (size_t i = 0; i < kLaneBytes; i++) crc = crc >> 8 ^ kTables[0][crc & 0xff];
    columns[bit] = crc;
  }
  std::array<Table, 4> tables{};
  for (uint32_t byte = 0; byte < 256; byte++) {
    for (unsigned bit = 0; bit < 32; bit++) {
      if ((byte >> bit % 8 & 1) != 0) tables[bit / 8][byte] ^= columns[bit];
    }
  }
  return tables;
}

constexpr std::array<Table, 4> kLaneTables = MakeLaneTables();

// Advances the checksum over kLaneBytes zero bytes.
uint32_t SkipLane(uint32_t crc) {
  return kLaneTables[0][crc & 0xff] ^ kLaneTables[1][crc >> 8 & 0xff] ^
         kLaneTables[2][crc >> 16 & 0xff] ^ kLaneTables[3][crc >> 24];
}

BLOCKDELTA_CRC32C_TARGET uint32_t HardwareCrc32c(uint32_t crc, const uint8_t* data, size_t bytes) {
  for (; bytes >= 3 * kLaneBytes; data += 3 * kLaneBytes, bytes -= 3 * kLaneBytes) {
    uint64_t lanes[3] = {crc, 0, 0};
    for (size_t i = 0; i < kLaneBytes; i += kWord) {
      lanes[0] = StepWord(lanes[0], LoadWord(data + i));
      lanes[1] = StepWord(lanes[1], LoadWord(data + kLaneBytes + i));
      lanes[2] = StepWord(lanes[2], LoadWord(data + 2 * kLaneBytes + i));
    }
    const uint32_t first_two =
        SkipLane(static_cast<uint32_t>(lanes[0])) ^ static_cast<uint32_t>(lanes[1]);
    crc = SkipLane(first_two) ^ static_cast<uint32_t>(lanes[2]);
  }
  uint64_t wide = crc;
  for (; bytes >= kWord; data += kWord, bytes -= kWord) wide = StepWord(wide, LoadWord(data));
  crc = static_cast<uint32_t>(wide);
  for (; bytes > 0; data++, bytes--) crc = StepByte(crc, *data);
  return crc;
}
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
#if defined(BLOCKDELTA_CRC32C_TARGET)
  if (HasHardware()) return HardwareCrc32c(crc, data, bytes);
#endif
  return PortableCrc32c(crc, data, bytes);
}

}  // namespace blockdelta
