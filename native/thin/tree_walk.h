// Reads selected entries of a small btree: the device and details trees.
//
// Walks level by level, so that a source can keep many reads in flight. Mapping trees, which are
// large, use TreePair.
#ifndef BLOCKDELTA_NATIVE_THIN_TREE_WALK_H_
#define BLOCKDELTA_NATIVE_THIN_TREE_WALK_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "native/base/status.h"
#include "native/thin/block_source.h"
#include "native/thin/btree_node.h"

namespace blockdelta {

// The keys to visit.
class WantedKeys {
 public:
  static WantedKeys All() { return WantedKeys(); }
  static WantedKeys Only(std::vector<uint64_t> keys);

  bool Has(uint64_t key) const;
  // Whether any wanted key is in `range`.
  bool Touch(KeyRange range) const;

 private:
  WantedKeys() = default;

  bool is_all_ = true;
  std::vector<uint64_t> keys_;  // Ascending.
};

struct TreeRoot {
  uint64_t number;
  // Key range of the tree.
  KeyRange keys;
  uint32_t value_bytes;
};

// Receives an entry with its on-disk value; returns false to end the walk.
using VisitEntry = std::function<bool(uint64_t key, const uint8_t* value)>;

// Decides whether to read the node in this block, and what is below it.
using EnterNode = std::function<bool(uint64_t number)>;

// Visits the wanted entries that exist, in ascending order. Checks every node; all leaves must be
// on one level. THIN_METADATA_INVALID, or the failures of the source. Memory: 1 MiB plus 24 bytes
// per node of a level.
Status WalkTree(BlockSource* source, const TreeRoot& root, const WantedKeys& wanted,
                const VisitEntry& visit);
// As above, with all entries of the nodes that `enter` accepts.
Status WalkNodes(BlockSource* source, const TreeRoot& root, const EnterNode& enter,
                 const VisitEntry& visit);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_TREE_WALK_H_
