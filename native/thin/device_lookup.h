// Looks up thin devices in a live pool, consistently within one commit.
//
// A commit writes new nodes first and the superblock last, and the blocks it replaced become free
// for the next commit. So everything read between two reads of the same superblock was valid. The
// lookup needs no metadata snapshot. A scan of a device that is not written to or deleted needs
// none either: the nodes of the device stay in place, and a superblock that still leads to its root
// proves that afterwards.
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
  // Root of its mapping tree; absent if it is to be looked up.
  std::optional<uint64_t> root;
};

struct DeviceLookup {
  Superblock superblock;
  // In the order of the request.
  std::vector<ThinDevice> devices;
};

// Reads superblock `number` and the devices it leads to. ENODATA if a device does not exist;
// SCAN_BUSY if the pool commits faster than they can be read.
Result<DeviceLookup> LookUpDevices(BlockSource* source, uint64_t number,
                                   const std::vector<uint64_t>& ids);

// Confirms that devices are unchanged. SCAN_REPLACED unless the current superblock still leads to
// the root given for each device and, if `number` is the copy of a metadata snapshot, that snapshot
// is still held; SCAN_BUSY as above. A root found through a copy proves nothing by itself, so
// `refs` contains only roots found through the current superblock.
Status ConfirmDevices(BlockSource* source, uint64_t number, const std::vector<ThinDeviceRef>& refs);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_DEVICE_LOOKUP_H_
