// Cuts volumes: flushes them, clones their files while nothing changes them, and makes the clones
// snapshots or a new volume.
//
// Several volumes are cut at one point in time T: every clone holds what was answered to its
// volume's writers before T, and nothing that was written after. A frozen file system and a volume
// that is not attached stand still by themselves. A raw device does not: the unfrozen ones are
// cloned one after the other, T is the clone of the last of them, and the counters of the others
// say whether anything was written to them between their own clone and T. If so, the clones are
// thrown away and it is tried again, with the one that is written to in the last place.
#ifndef BLOCKDELTA_NATIVE_DEVICE_CUT_H_
#define BLOCKDELTA_NATIVE_DEVICE_CUT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "native/device/files.h"

namespace blockdelta {

// Failure code: two or more raw devices are written to all the time. The path is the source of one.
inline constexpr char kCutBusy[] = "SNAPSHOT_BUSY";

struct CutMember {
  std::string source_path;
  NewFileNames names;
  // The loop device that the source is attached to, if it is.
  std::optional<std::string> loop_path;
  // The mount point of the file system on that loop device, if it shall be frozen.
  std::optional<std::string> freeze_path;
};

struct CutOutcome {
  uint64_t cut_time_ns;  // CLOCK_REALTIME.
  uint64_t frozen_ns;    // Of the file system that stood longest; 0: none was frozen.
};

// Frozen snapshots: mode 0400, immutable. All or none: whatever fails, everything is thawed and no
// file is left. EEXIST if there is a file of a final name; ESTALE if a loop device belongs to
// another file or a mount point to another file system; EBUSY if one is frozen already; EINVAL for
// an empty list or names given twice; SNAPSHOT_BUSY.
Result<CutOutcome> CutSnapshots(const std::vector<CutMember>& members);

// A volume like any new one: mode 0600, grown with zeros to `size_bytes`. EINVAL if the source is
// larger; else fails as CutSnapshots does.
Result<CutOutcome> CloneVolume(const CutMember& member, uint64_t size_bytes);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_CUT_H_
