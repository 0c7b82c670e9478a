// The lines of text that device-mapper's thin targets answer with, taken apart.
//
// Pure functions over text, strict: a line is what the kernel documents
// (Documentation/admin-guide/device-mapper/thin-provisioning.rst) or DM_STATUS_INVALID, every
// number is checked for its range. Knows no ioctl.
#ifndef BLOCKDELTA_NATIVE_DEVICE_DM_STATUS_H_
#define BLOCKDELTA_NATIVE_DEVICE_DM_STATUS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "native/base/status.h"

namespace blockdelta {

// Failure code: an answer of the kernel that is not what it documents.
inline constexpr char kDmStatusInvalid[] = "DM_STATUS_INVALID";

// Ids of thin devices have 24 bits.
inline constexpr uint64_t kMaxThinId = (1u << 24) - 1;
// No device has more: its size in bytes fits a signed 64-bit number.
inline constexpr uint64_t kMaxSectors = INT64_MAX / 512;

// kError: the kernel could not read the metadata to answer, kFail: it has given the pool up.
enum class ThinPoolMode { kReadWrite, kReadOnly, kOutOfDataSpace, kFail, kError };
enum class ThinPoolDiscards { kPassdown, kNoPassdown, kIgnore };

// In modes kFail and kError only `mode` is known.
struct ThinPoolStatus {
  ThinPoolMode mode = ThinPoolMode::kFail;
  uint64_t transaction_id = 0;
  uint64_t used_metadata_blocks = 0;
  uint64_t total_metadata_blocks = 0;
  uint64_t used_data_blocks = 0;
  uint64_t total_data_blocks = 0;
  // Metadata block of the superblock copy of a metadata snapshot; nothing: none is held.
  std::optional<uint64_t> held_root;
  ThinPoolDiscards discards = ThinPoolDiscards::kPassdown;
  bool errors_when_full = false;
  bool needs_check = false;
  uint64_t metadata_low_water_blocks = 0;

  // Whether the pool keeps what messages do: without data space it still commits its metadata.
  bool KeepsMessages() const {
    return (mode == ThinPoolMode::kReadWrite || mode == ThinPoolMode::kOutOfDataSpace) &&
           !needs_check;
  }
};

// As the status line says it: "rw", "Fail".
const char* NameOf(ThinPoolMode mode);

// The status line of a thin-pool target. Words after the last one known here are accepted: the
// kernel has made the line longer before, and says that it may.
Result<ThinPoolStatus> ParseThinPoolStatus(std::string_view line);

struct ThinStatus {
  bool is_failed = false;  // The pool has failed, or its metadata cannot be read.
  uint64_t mapped_sectors = 0;
};

// The status line of a thin target.
Result<ThinStatus> ParseThinStatus(std::string_view line);

struct ThinTable {
  uint32_t pool_major = 0;
  uint32_t pool_minor = 0;
  uint32_t device_id = 0;
};

// The table line of a thin target as the kernel tells it, with device numbers. An external origin
// may follow.
Result<ThinTable> ParseThinTable(std::string_view line);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_DM_STATUS_H_
