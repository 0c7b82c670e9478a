// Mapping trees in memory that share nodes as the kernel's do, with nodes as small as a test likes.
//
// Written apart from the reader: it keeps nodes as lists, of which thin_image.h makes blocks. Trees
// may be as odd as the format allows: unequal height, roots of one child, neighbours merged or
// split without need.
#ifndef BLOCKDELTA_TEST_NATIVE_MAPPING_TREES_H_
#define BLOCKDELTA_TEST_NATIVE_MAPPING_TREES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace blockdelta::test {

// Virtual block to value: (data block << 24) | time.
using Mappings = std::map<uint64_t, uint64_t>;

class MappingTrees {
 public:
  struct Node {
    bool is_leaf;
    std::vector<uint64_t> keys;
    std::vector<uint64_t> values;  // Of an internal node: its children.
  };

  // Nodes have at most `max_entries`, from 3 to 252.
  explicit MappingTrees(uint32_t max_entries) : max_entries_(max_entries), nodes_(1) {}

  // Roots. Each change returns the new one; nodes that are shared are copied first.
  uint64_t Empty() { return Add({true, {}, {}}); }
  // Of keys in ascending order, nodes filled to `fill` of their room.
  uint64_t Build(std::vector<std::pair<uint64_t, uint64_t>> entries, double fill);
  uint64_t Set(uint64_t root, uint64_t key, uint64_t value);
  uint64_t Remove(uint64_t root, uint64_t key);
  // Only where the leaf, or the parent of a leaf that goes as a whole, stays a third full, as the
  // kernel leaves it; otherwise nothing changes.
  uint64_t Discard(uint64_t root, uint64_t key);
  uint64_t DiscardLeaf(uint64_t root, uint64_t key);
  // Puts another root above this one.
  uint64_t Raise(uint64_t root);
  // From now on every node there is may be shared.
  void Share() { fresh_from_ = nodes_.size(); }

  uint32_t max_entries() const { return max_entries_; }
  // In the order in which they came; number 0 is none, as block 0 is the superblock's.
  const std::vector<Node>& nodes() const { return nodes_; }
  Mappings Content(uint64_t root) const;
  uint64_t CountMapped(uint64_t root) const;
  std::set<uint64_t> Nodes(uint64_t root) const;
  unsigned Height(uint64_t root) const;

 private:
  uint64_t Add(Node node);
  uint64_t Shadow(uint64_t number);
  uint64_t ShadowChild(uint64_t number, size_t index);
  uint64_t SplitOff(uint64_t number);
  void Erase(uint64_t number, size_t index);
  size_t Child(const Node& node, uint64_t key) const;
  // The leaf that would hold the key, and its parent: 0 if it is the root.
  std::pair<uint64_t, uint64_t> Leaf(uint64_t root, uint64_t key) const;
  bool StaysFull(uint64_t number) const;
  bool RemoveBelow(uint64_t number, uint64_t key);
  void MergeChildren(uint64_t parent, size_t left);

  const uint32_t max_entries_;
  std::vector<Node> nodes_;
  size_t fresh_from_ = 0;
};

struct Family {
  MappingTrees trees;
  std::vector<uint64_t> roots;
};

// An origin that changes, and its snapshots. The k-th, counted from 0, was made at time k + 1 and
// has only older mappings; whatever is written to gets another data block.
Family RandomFamily(std::mt19937_64* random);

}  // namespace blockdelta::test

#endif  // BLOCKDELTA_TEST_NATIVE_MAPPING_TREES_H_
