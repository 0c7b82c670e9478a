// What device-mapper puts behind struct dm_ioctl: chains of target specs, names and versions.
//
// Pure functions over bytes; every offset and length in them is checked. Formats:
// include/uapi/linux/dm-ioctl.h. Fails with DM_STATUS_INVALID.
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
  // The table line or the status line, as was asked for.
  std::string text;
};

// The answer of DM_TABLE_STATUS: `count` targets that follow one another without a gap, from
// sector 0 on. Their texts end with a word.
Result<std::vector<DmTarget>> ParseTargets(Span<const uint8_t> bytes, uint32_t count);

// The argument of DM_TABLE_LOAD. REQUIRES: types of at most kMaxTargetType bytes, no NUL in texts.
std::vector<uint8_t> EncodeTargets(const std::vector<DmTarget>& targets);

// The argument of DM_TARGET_MSG, sent to sector 0.
std::vector<uint8_t> EncodeMessage(const std::string& message);

// The answer of DM_LIST_DEVICES.
Result<std::vector<std::string>> ParseDeviceNames(Span<const uint8_t> bytes);

// The answer of DM_LIST_VERSIONS: the target types that the kernel has now.
Result<std::vector<std::string>> ParseTargetTypes(Span<const uint8_t> bytes);

// Without the NUL.
inline constexpr size_t kMaxTargetType = 15;

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_DM_BUFFER_H_
