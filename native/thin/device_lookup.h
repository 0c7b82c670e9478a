// Looks thin devices up in a pool that may be working: what is found belongs to one commit.
//
// A commit writes new nodes first and the superblock last, and frees what it replaced for the next
// one to use. So what was read between two reads of one and the same superblock was all there. No
// metadata snapshot is needed for it, and none while the tree of a device is read that nobody
// writes to and nobody deletes: its nodes stay where they are, which is proved afterwards by a
// superblock that still leads to its root.
#ifndef BLOCKDELTA_NATIVE_THIN_DEVICE_LOOKUP_H_
#define BLOCKDELTA_NATIVE_THIN_DEVICE_LOOKUP_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "native/thin/device_tree.h"

namespace blockdelta {

// One device of a scan.
struct ThinDeviceRef {
  uint64_t id;
  // Of its mapping tree; absent: to be looked up.
  std::optional<uint64_t> root;
};

struct DeviceLookup {
  Superblock superblock;
  // In the order they were asked for.
  std::vector<ThinDevice> devices;
};

// Superblock `number` and devices that it leads to. ENODATA if one does not exist; SCAN_BUSY if the
// pool commits faster than the way to them can be read.
Result<DeviceLookup> LookUpDevices(BlockSource* source, uint64_t number,
                                   const std::vector<uint64_t>& ids);

// SCAN_BUSY as above; SCAN_REPLACED unless superblock `number`, if it is the copy of a metadata
// snapshot, is held still, and unless each device's tree begins still at the root given with it, by
// the current superblock. A root that was found through a copy proves nothing by itself, so `refs`
// has only those that were found through the current one.
Status ConfirmDevices(BlockSource* source, uint64_t number, const std::vector<ThinDeviceRef>& refs);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_DEVICE_LOOKUP_H_
