// Parses the status and table lines of device-mapper's thin targets.
//
// Pure, strict functions over text: a line that differs from the kernel's documentation
// (Documentation/admin-guide/device-mapper/thin-provisioning.rst) and a number out of range fail
// with DM_STATUS_INVALID. Knows no ioctl.
#ifndef BLOCKDELTA_NATIVE_DEVICE_DM_STATUS_H_
#define BLOCKDELTA_NATIVE_DEVICE_DM_STATUS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "native/base/status.h"

namespace blockdelta {

// Failure code: a reply of the kernel that is not as documented.
inline constexpr char kDmStatusInvalid[] = "DM_STATUS_INVALID";

// Thin device ids have 24 bits.
inline constexpr uint64_t kMaxThinId = (1u << 24) - 1;
// Maximum size of a device: its size in bytes fits a signed 64-bit number.
inline constexpr uint64_t kMaxSectors = INT64_MAX / 512;

// kError: the kernel could not read the metadata for this status. kFail: the pool has failed.
enum class ThinPoolMode { kReadWrite, kReadOnly, kOutOfDataSpace, kFail, kError };
enum class ThinPoolDiscards { kPassdown, kNoPassdown, kIgnore };

// In modes kFail and kError, only `mode` is known.
struct ThinPoolStatus {
  ThinPoolMode mode = ThinPoolMode::kFail;
  uint64_t transaction_id = 0;
  uint64_t used_metadata_blocks = 0;
  uint64_t total_metadata_blocks = 0;
  uint64_t used_data_blocks = 0;
  uint64_t total_data_blocks = 0;
  // Block of the superblock copy of the held metadata snapshot; nothing if none is held.
  std::optional<uint64_t> held_root;
  ThinPoolDiscards discards = ThinPoolDiscards::kPassdown;
  bool errors_when_full = false;
  bool needs_check = false;
  uint64_t metadata_low_water_blocks = 0;

  // Whether the effect of messages persists: without data space the pool still commits its
  // metadata.
  bool KeepsMessages() const {
    return (mode == ThinPoolMode::kReadWrite || mode == ThinPoolMode::kOutOfDataSpace) &&
           !needs_check;
  }
};

// The word of the status line: "rw", "Fail".
const char* NameOf(ThinPoolMode mode);

// Parses the status line of a thin-pool target. Accepts additional words at the end: the kernel has
// extended the line before and documents that it may do so again.
Result<ThinPoolStatus> ParseThinPoolStatus(std::string_view line);

struct ThinTable {
  uint32_t pool_major = 0;
  uint32_t pool_minor = 0;
  uint32_t device_id = 0;
};

// Parses the table line of a thin target as the kernel returns it, with device numbers and possibly
// an external origin.
Result<ThinTable> ParseThinTable(std::string_view line);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_DM_STATUS_H_
