// Cuts a snapshot: flushes a volume, clones its file while nothing changes it, freezes the clone.
#ifndef BLOCKDELTA_NATIVE_DEVICE_CUT_H_
#define BLOCKDELTA_NATIVE_DEVICE_CUT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "native/device/files.h"

namespace blockdelta {

struct CutRequest {
  std::string source_path;
  NewFileNames names;
  // The loop device that the source is attached to, if it is.
  std::optional<std::string> loop_path;
  // The mount point of the file system on that loop device, if it shall be frozen.
  std::optional<std::string> freeze_path;
};

struct CutOutcome {
  uint64_t cut_time_ns;  // CLOCK_REALTIME.
  uint64_t frozen_ns;    // 0: it was not frozen.
};

// EEXIST if there is a file of the final name; ESTALE if the loop device belongs to another file or
// the mount point to another file system; EBUSY if it is frozen already.
Result<CutOutcome> CutSnapshot(const CutRequest& request);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_CUT_H_
