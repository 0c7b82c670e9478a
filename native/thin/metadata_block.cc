#include "native/thin/metadata_block.h"

#include "native/base/crc32c.h"
#include "native/thin/block_source.h"
#include "native/thin/thin_format.h"

namespace blockdelta {
namespace {

constexpr size_t kChecksumBytes = 4;

}  // namespace

Status InvalidBlock(const std::string& path, uint64_t number, const std::string& what) {
  return Status::Reason(kThinMetadataInvalid, "read", path,
                        "block " + std::to_string(number) + " of ", ": " + what);
}

uint32_t ChecksumOf(const uint8_t* block, uint32_t salt) {
  return Crc32c(UINT32_MAX, block + kChecksumBytes, kMetadataBlockBytes - kChecksumBytes) ^ salt;
}

Status CheckBlock(const uint8_t* block, uint64_t number, uint32_t salt, const char* kind,
                  const std::string& path) {
  const uint32_t found = ReadLe32(block);
  const uint32_t expected = ChecksumOf(block, salt);
  if (found != expected) {
    return InvalidBlock(path, number,
                        "expected " + std::string(kind) + " with checksum " +
                            std::to_string(expected) + ", found " + std::to_string(found));
  }
  const uint64_t own_number = ReadLe64(block + kOwnNumberOffset);
  if (own_number != number) {
    return InvalidBlock(path, number,
                        "expected " + std::string(kind) + " with this number, found number " +
                            std::to_string(own_number));
  }
  return Status();
}

}  // namespace blockdelta
