// Counts of sectors written to a block device, from /sys/dev/block/MAJOR:MINOR.
//
// The kernel raises the sector counters before it completes a write, so a write that completed
// before the counters are read is included. (It raises the number of requests after completion, so
// that field is not used.)
#ifndef BLOCKDELTA_NATIVE_DEVICE_WRITE_COUNTERS_H_
#define BLOCKDELTA_NATIVE_DEVICE_WRITE_COUNTERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "native/base/posix.h"

namespace blockdelta {

struct WriteCounters {
  uint64_t written_sectors;    // Including write-zeroes requests.
  uint64_t discarded_sectors;  // 0 on kernels before 4.18, which do not count them.

  bool operator==(const WriteCounters& other) const {
    return written_sectors == other.written_sectors && discarded_sectors == other.discarded_sectors;
  }
};

// Parses a `stat` file of 11 or more unsigned numbers. Nothing for any other text.
std::optional<WriteCounters> ParseBlockStat(std::string_view text);

// Nothing if the device does not count writes (queue/iostats is off).
Result<std::optional<WriteCounters>> ReadWriteCounters(dev_t device);

// Whether a write was submitted to the device that the counters do not show yet. Read this before
// the counters: a write that completes in between is counted. Always false where writes are not
// counted.
Result<bool> HasWriteInFlight(dev_t device);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_WRITE_COUNTERS_H_
