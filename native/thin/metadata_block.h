// The part common to every block of thin metadata: a checksum and its own number.
#ifndef BLOCKDELTA_NATIVE_THIN_METADATA_BLOCK_H_
#define BLOCKDELTA_NATIVE_THIN_METADATA_BLOCK_H_

#include <cstdint>
#include <string>

#include "native/base/status.h"

namespace blockdelta {

// THIN_METADATA_INVALID: "block <number> of <path>: <what>".
Status InvalidBlock(const std::string& path, uint64_t number, const std::string& what);

// The checksum that a block of kMetadataBlockBytes must start with.
uint32_t ChecksumOf(const uint8_t* block, uint32_t salt);

// Checks the checksum and the number of a block. `kind` is for the failure: "a btree node".
Status CheckBlock(const uint8_t* block, uint64_t number, uint32_t salt, const char* kind,
                  const std::string& path);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_METADATA_BLOCK_H_
