// The thin devices of a pool: the root of each mapping tree and the device details.
#ifndef BLOCKDELTA_NATIVE_THIN_DEVICE_TREE_H_
#define BLOCKDELTA_NATIVE_THIN_DEVICE_TREE_H_

#include <cstdint>
#include <vector>

#include "native/base/status.h"
#include "native/thin/block_source.h"
#include "native/thin/superblock.h"
#include "native/thin/tree_walk.h"

namespace blockdelta {

struct ThinDevice {
  uint64_t id = 0;
  // Root of its mapping tree.
  uint64_t root = 0;
  uint64_t mapped_blocks = 0;
  // The pool's transaction id when the device was created.
  uint64_t transaction_id = 0;
  // The pool's time when the device was created, and when it was last snapshotted.
  uint32_t creation_time = 0;
  uint32_t snapshotted_time = 0;
};

struct ThinDeviceList {
  std::vector<ThinDevice> devices;
  // Whether there are more than `limit`.
  bool truncated = false;
};

// At most `limit` devices in the order of their ids. THIN_METADATA_INVALID also if the mapping tree
// and the details tree have different ids.
Result<ThinDeviceList> ListThinDevices(BlockSource* source, const Superblock& superblock,
                                       const WantedKeys& ids, size_t limit);

// One device; ENODATA if it does not exist.
Result<ThinDevice> FindThinDevice(BlockSource* source, const Superblock& superblock, uint64_t id);

// The mapping root of a device, without its details; ENODATA if it does not exist.
Result<uint64_t> FindThinRoot(BlockSource* source, const Superblock& superblock, uint64_t id);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_DEVICE_TREE_H_
