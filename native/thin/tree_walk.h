// Reads wanted entries of a small btree: the trees of devices and of their details.
//
// Level by level, so that a source with many reads in flight has something to do. Mapping trees,
// which are large, have a walk of their own.
#ifndef BLOCKDELTA_NATIVE_THIN_TREE_WALK_H_
#define BLOCKDELTA_NATIVE_THIN_TREE_WALK_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "native/base/status.h"
#include "native/thin/block_source.h"
#include "native/thin/btree_node.h"

namespace blockdelta {

// Keys somebody wants.
class WantedKeys {
 public:
  static WantedKeys All() { return WantedKeys(); }
  static WantedKeys Only(std::vector<uint64_t> keys);

  bool Has(uint64_t key) const;
  // Whether any of them is in the range.
  bool Touch(KeyRange range) const;

 private:
  WantedKeys() = default;

  bool is_all_ = true;
  std::vector<uint64_t> keys_;  // Ascending.
};

struct TreeRoot {
  uint64_t number;
  // What the tree's keys are limited to.
  KeyRange keys;
  uint32_t value_bytes;
};

// Takes an entry, its value as it lies on disk; false ends the walk.
using VisitEntry = std::function<bool(uint64_t key, const uint8_t* value)>;

// Visits the wanted entries that exist, ascending. Every node is checked; all leaves must lie on
// one level. THIN_METADATA_INVALID, or what the source fails with. Memory: 1 MiB, and 24 bytes for
// each node of a level.
Status WalkTree(BlockSource* source, const TreeRoot& root, const WantedKeys& wanted,
                const VisitEntry& visit);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_TREE_WALK_H_
