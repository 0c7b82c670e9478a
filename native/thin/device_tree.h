// The thin devices of a pool: where the mappings of each begin, and what is recorded about it.
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
  // Of its mapping tree.
  uint64_t root = 0;
  uint64_t mapped_blocks = 0;
  // The pool's when it was made.
  uint64_t transaction_id = 0;
  // The pool's time when it was made, and when it was last forked.
  uint32_t creation_time = 0;
  uint32_t snapshotted_time = 0;
};

struct ThinDeviceList {
  std::vector<ThinDevice> devices;
  // There are more than were asked for.
  bool truncated = false;
};

// Devices in the order of their ids, at most `limit`. THIN_METADATA_INVALID also where the tree of
// mappings and that of details do not hold the same ids.
Result<ThinDeviceList> ListThinDevices(BlockSource* source, const Superblock& superblock,
                                       const WantedKeys& ids, size_t limit);

// One of them; ENODATA if it does not exist.
Result<ThinDevice> FindThinDevice(BlockSource* source, const Superblock& superblock, uint64_t id);

// Where the mappings of a device begin, without its details; ENODATA if it does not exist.
Result<uint64_t> FindThinRoot(BlockSource* source, const Superblock& superblock, uint64_t id);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_DEVICE_TREE_H_
