// Makes a snapshot's change list, and stores its extent map beside the list, in bounded steps.
#ifndef BLOCKDELTA_NATIVE_SCAN_BUILD_CHANGE_LIST_H_
#define BLOCKDELTA_NATIVE_SCAN_BUILD_CHANGE_LIST_H_

#include <optional>
#include <string>

#include "native/scan/change_list_writer.h"
#include "native/scan/snapshot_file.h"

namespace blockdelta {

struct ChangeListNames {
  // In the directory of the final name.
  std::string temporary;
  std::string final;
};

// A snapshot to list: its id and its file.
struct SnapshotToList {
  std::string id;
  SnapshotIdentity file;
};

struct BuildChangeListRequest {
  SnapshotToList target;
  // Nothing for the list of the allocated ranges.
  std::optional<SnapshotToList> base;
  ChangeListNames names;
  // The stored map of the base, read in place of the base's extents.
  std::optional<std::string> base_map;
  // The names of the map of the target, which is made on XFS only.
  std::optional<ChangeListNames> map_names;
  // A step ends soon after it has read this many extents. At least 1.
  uint64_t max_extents = 1;
};

// Where the next step continues: plain numbers, which the caller keeps and passes on unchanged.
struct BuildProgress {
  uint64_t offset = 0;
  uint64_t range_start = 0;
  // The files as the first step found them.
  FileVersion target;
  FileVersion base;
  ChangeListProgress list;
  ChangeListProgress map;
};

struct BuildOutcome {
  BuildProgress progress;
  // Whether the list, and the map if one was asked for, have their final names.
  bool done = false;
  // Extents read and windows scanned again by this step.
  uint64_t extents = 0;
  uint64_t rescans = 0;
  // Size of the files so far.
  uint64_t file_bytes = 0;
};

// Runs one step; the first one has no progress. SCAN_MUTABLE if a snapshot's file has changed since
// the first step, LIST_INVALID if an unfinished file has, or the stored map is not that of the
// base, EINVAL if the target's size is not in units of 512 bytes; failures of FillFromFiles(),
// errnos. After a failure the temporary files are worthless, and the next first step replaces them.
Result<BuildOutcome> BuildChangeList(const BuildChangeListRequest& request,
                                     const std::optional<BuildProgress>& progress);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_SCAN_BUILD_CHANGE_LIST_H_
