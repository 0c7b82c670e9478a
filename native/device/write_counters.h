// How much was written to a block device so far, from /sys/dev/block/MAJOR:MINOR.
//
// The counters of sectors are raised before a write is answered, so whoever has seen an answer is
// followed by everybody who sees the counter. (The number of requests is raised after the answer:
// it is not looked at.)
#ifndef BLOCKDELTA_NATIVE_DEVICE_WRITE_COUNTERS_H_
#define BLOCKDELTA_NATIVE_DEVICE_WRITE_COUNTERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "native/base/posix.h"

namespace blockdelta {

struct WriteCounters {
  uint64_t written_sectors;    // Zeroed ones too.
  uint64_t discarded_sectors;  // 0 on kernels before 4.18, which do not tell.

  bool operator==(const WriteCounters& other) const {
    return written_sectors == other.written_sectors && discarded_sectors == other.discarded_sectors;
  }
};

// The contents of a `stat` file: unsigned numbers, 11 or more. Nothing if it is anything else.
std::optional<WriteCounters> ParseBlockStat(std::string_view text);

// Nothing if the device does not count (queue/iostats is off), so that nobody can tell.
Result<std::optional<WriteCounters>> ReadWriteCounters(dev_t device);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_WRITE_COUNTERS_H_
