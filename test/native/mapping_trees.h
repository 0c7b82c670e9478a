// Mapping trees in memory that share nodes as the kernel's do, with nodes as small as a test likes.
//
// Written apart from the reader and from the generator of images: it keeps nodes as lists and makes
// blocks of them at the end. Trees may be as odd as the format allows: unequal height, roots of one
// child, neighbours merged or split without need.
#ifndef BLOCKDELTA_TEST_NATIVE_MAPPING_TREES_H_
#define BLOCKDELTA_TEST_NATIVE_MAPPING_TREES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace blockdelta::test {

// Virtual block to value: (data block << 24) | time.
using Mappings = std::map<uint64_t, uint64_t>;

// A device of a pool that PoolImage() makes.
struct TreeDevice {
  uint64_t id;
  uint64_t root;
  uint32_t creation_time;
};

class MappingTrees {
 public:
  // Nodes have at most `max_entries`, from 3 to 252.
  explicit MappingTrees(uint32_t max_entries);

  // Roots. Each change returns the new one; nodes that are shared are copied first.
  uint64_t Empty();
  uint64_t Set(uint64_t root, uint64_t key, uint64_t value);
  uint64_t Remove(uint64_t root, uint64_t key);
  // Puts another root above this one.
  uint64_t Raise(uint64_t root);
  // From now on every node there is may be shared.
  void Share() { fresh_from_ = nodes_.size(); }

  Mappings Content(uint64_t root) const;
  std::set<uint64_t> Nodes(uint64_t root) const;
  unsigned Height(uint64_t root) const;
  // Blocks of all nodes, each in the place of its number.
  std::vector<uint8_t> Image() const;
  // The same with a superblock in block 0, and the trees it leads to behind the last node: at most
  // as many devices, in the order of their ids, as a leaf holds.
  std::vector<uint8_t> PoolImage(const std::vector<TreeDevice>& devices) const;

 private:
  struct Node {
    bool is_leaf;
    std::vector<uint64_t> keys;
    std::vector<uint64_t> values;
  };

  uint64_t Add(Node node);
  uint64_t Shadow(uint64_t number);
  uint64_t SplitOff(uint64_t number);
  size_t Child(const Node& node, uint64_t key) const;
  bool Has(uint64_t root, uint64_t key) const;
  bool RemoveBelow(uint64_t number, uint64_t key);
  void MergeChildren(uint64_t parent, size_t left);

  const uint32_t max_entries_;
  std::vector<Node> nodes_;
  size_t fresh_from_ = 0;
};

}  // namespace blockdelta::test

#endif  // BLOCKDELTA_TEST_NATIVE_MAPPING_TREES_H_
