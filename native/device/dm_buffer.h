// The payload after struct dm_ioctl: chains of target specs, names and versions.
//
// Pure functions over bytes; they check every offset and length. Formats:
// include/uapi/linux/dm-ioctl.h. Failures have the code DM_STATUS_INVALID.
#ifndef BLOCKDELTA_NATIVE_DEVICE_DM_BUFFER_H_
#define BLOCKDELTA_NATIVE_DEVICE_DM_BUFFER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "native/base/span.h"
#include "native/base/status.h"

namespace blockdelta {

struct DmTarget {
  std::string type;
  uint64_t start_sectors = 0;
  uint64_t length_sectors = 0;
  // The table line or the status line, depending on the request.
  std::string text;
};

// Parses the answer of DM_TABLE_STATUS: `count` contiguous targets from sector 0 on. Their texts
// have no trailing spaces.
Result<std::vector<DmTarget>> ParseTargets(Span<const uint8_t> bytes, uint32_t count);

// Encodes the argument of DM_TABLE_LOAD. REQUIRES: types of at most kMaxTargetType bytes, no NUL in
// texts.
std::vector<uint8_t> EncodeTargets(const std::vector<DmTarget>& targets);

// Encodes the argument of DM_TARGET_MSG, sent to sector 0.
std::vector<uint8_t> EncodeMessage(const std::string& message);

// Parses the answer of DM_LIST_DEVICES.
Result<std::vector<std::string>> ParseDeviceNames(Span<const uint8_t> bytes);

// Parses the answer of DM_LIST_VERSIONS: the registered target types.
Result<std::vector<std::string>> ParseTargetTypes(Span<const uint8_t> bytes);

// Maximum length of a target type, without the NUL.
inline constexpr size_t kMaxTargetType = 15;

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_DM_BUFFER_H_
