// Answers a request for changed ranges from stored lists alone: no extent of a snapshot is read.
//
// The lists form a chain from the base to the target, each starting at the snapshot where the
// previous one ends. A byte outside all of them is equal in each step, so it is equal in the base
// and the target; the union of the lists therefore contains every difference. It may also contain
// ranges that changed and changed back. docs/engineering/change-lists.md has the argument with its
// conditions.
#ifndef BLOCKDELTA_NATIVE_SCAN_CHANGE_LIST_UNION_H_
#define BLOCKDELTA_NATIVE_SCAN_CHANGE_LIST_UNION_H_

#include <optional>
#include <string>
#include <vector>

#include "native/scan/change_list_file.h"
#include "native/scan/fill.h"
#include "native/scan/snapshot_file.h"

namespace blockdelta {

// The times of their pool at which two thin devices were created.
struct ThinTimes {
  uint32_t target;
  // Absent for the allocated ranges, or if not known.
  std::optional<uint32_t> base;
};

struct ChangeListRequest {
  // The lists of the steps from the base to the target, oldest first; or one list of the allocated
  // ranges, without a base. At least 1, at most kMaxLists.
  std::vector<std::string> paths;
  std::string target_id;
  // Empty for the allocated ranges.
  std::string base_id;
  // Size of the target.
  uint64_t size_bytes = 0;
  // The files of the two snapshots, if they still exist. The lists must have been made from them.
  std::optional<SnapshotIdentity> target;
  std::optional<SnapshotIdentity> base;
  // Present if the lists are of thin devices, which were created at these times of their pool;
  // absent if the lists are of files.
  std::optional<ThinTimes> thin;

  // A bound for open files and memory, 64 KiB for each list at most.
  static constexpr size_t kMaxLists = 1024;
};

// Fills one chunk. LIST_INVALID if a list is damaged, or the lists do not form a chain between
// these snapshots; SCAN_REPLACED and SCAN_MUTABLE for the files of the snapshots; errnos. The
// positions mean the same in every other scan, so a scan that fails here can continue in one.
Result<FillOutcome> FillFromLists(ChangeListRequest request, const FillLimits& limits,
                                  Span<uint8_t> buffer);

// FillFromLists() for lists that are open and form a chain.
Result<FillOutcome> FillFromListFiles(const std::vector<ChangeListFile>& files, uint64_t size_bytes,
                                      const FillLimits& limits, Span<uint8_t> buffer);

// Reads the lists in full and verifies all that FillFromLists() does, so that they can answer such
// a request now and after the files of the snapshots are gone. Also verifies that each list has the
// number and the sum of entries that its head says. The failures are those of FillFromLists().
Status VerifyChangeLists(ChangeListRequest request);

struct JoinChangeListsRequest {
  // The lists of two steps, the second from the snapshot where the first one ends.
  std::string older;
  std::string newer;
  std::string temporary;
  // May be `newer`, which is replaced at the end.
  std::string final;
};

// Stores the union of two lists as one list, from the first one's base to the second one's target.
// Returns its number of entries. LIST_INVALID if a list is damaged, or they are not two such steps;
// errnos. After a failure the temporary file is worthless, and the others are as they were.
Result<uint64_t> JoinChangeLists(const JoinChangeListsRequest& request);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_SCAN_CHANGE_LIST_UNION_H_
