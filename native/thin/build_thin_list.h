// Makes the change list of a thin snapshot in bounded steps: the differences from an earlier
// snapshot or from the bookmark of a deleted one, or, without a base, the allocated ranges.
//
// A list stays true for ever, whatever becomes of the pool's metadata or of either snapshot.
#ifndef BLOCKDELTA_NATIVE_THIN_BUILD_THIN_LIST_H_
#define BLOCKDELTA_NATIVE_THIN_BUILD_THIN_LIST_H_

#include <optional>
#include <string>

#include "native/scan/build_change_list.h"
#include "native/thin/thin_fill.h"

namespace blockdelta {

struct BuildThinListRequest {
  std::string metadata;
  std::string target_id;
  // Size of the target's volume when it was taken, in units of 512 bytes.
  uint64_t target_bytes = 0;
  ThinDeviceRef target = {0, std::nullopt};
  // Empty for the list of the allocated ranges.
  std::string base_id;
  uint64_t base_bytes = 0;
  // Exactly one of these two is set if there is a base.
  std::optional<ThinDeviceRef> base;
  std::optional<std::string> bookmark_path;
  ChangeListNames names;
  // A step ends soon after it has read this many nodes. At least 1.
  uint64_t max_nodes = kMaxNodesPerFill;
};

// Runs one step; the first one has no progress. The map in the progress stays unused, and `extents`
// of the outcome are ranges. SCAN_REPLACED if a device is not the one of the first step;
// SCAN_UNSUPPORTED if the target is not younger than the base, or smaller; LIST_INVALID if the
// unfinished file has changed; EINVAL for a size that is not in units of 512 bytes; failures of
// FillFromThin(), errnos. After a failure the temporary file is worthless, and the next first step
// replaces it.
Result<BuildOutcome> BuildThinList(const BuildThinListRequest& request,
                                   const std::optional<BuildProgress>& progress);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_BUILD_THIN_LIST_H_
