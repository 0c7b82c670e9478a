// CRC-32C (Castagnoli), in hardware where available.
#ifndef BLOCKDELTA_NATIVE_BASE_CRC32C_H_
#define BLOCKDELTA_NATIVE_BASE_CRC32C_H_

#include <cstddef>
#include <cstdint>

namespace blockdelta {

// Advances `crc` over `bytes` bytes. Inverts nothing, like the kernel's crc32c(): the standard
// checksum is ~Crc32c(~0, ...).
uint32_t Crc32c(uint32_t crc, const uint8_t* data, size_t bytes);

// The table-driven version for any processor.
uint32_t PortableCrc32c(uint32_t crc, const uint8_t* data, size_t bytes);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_BASE_CRC32C_H_
