// How many data blocks each thin device of a pool holds alone: what its deletion gives back.
//
// Devices share whole nodes of their mapping trees, and data blocks of nodes that were copied. A
// block below a shared node is shared, so no node is read more than twice.
#ifndef BLOCKDELTA_NATIVE_THIN_EXCLUSIVE_BLOCKS_H_
#define BLOCKDELTA_NATIVE_THIN_EXCLUSIVE_BLOCKS_H_

#include <cstdint>
#include <vector>

#include "native/base/status.h"
#include "native/thin/block_source.h"
#include "native/thin/device_tree.h"
#include "native/thin/superblock.h"

namespace blockdelta {

// The exclusive blocks of each of the devices, in their order. REQUIRES: `devices` are all devices
// of the trees of `superblock`, which is the current one. A held metadata snapshot counts as no
// user. Memory: a quarter of a byte for each data block and each metadata block of the pool.
// Failures: as for WalkTree.
Result<std::vector<uint64_t>> CountExclusiveBlocks(BlockSource* source,
                                                   const Superblock& superblock,
                                                   const std::vector<ThinDevice>& devices);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_EXCLUSIVE_BLOCKS_H_
