// CRC-32C (Castagnoli), by the processor's instruction where there is one.
#ifndef BLOCKDELTA_NATIVE_THIN_CRC32C_H_
#define BLOCKDELTA_NATIVE_THIN_CRC32C_H_

#include <cstddef>
#include <cstdint>

namespace blockdelta {

// Continues `crc` over `bytes` bytes. Inverts nothing, as the kernel's crc32c(): the checksum of
// the standard is ~Crc32c(~0, ...).
uint32_t Crc32c(uint32_t crc, const uint8_t* data, size_t bytes);

// The same by tables, on any processor.
uint32_t PortableCrc32c(uint32_t crc, const uint8_t* data, size_t bytes);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_CRC32C_H_
