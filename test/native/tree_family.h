// Random families of mapping trees.
#ifndef BLOCKDELTA_TEST_NATIVE_TREE_FAMILY_H_
#define BLOCKDELTA_TEST_NATIVE_TREE_FAMILY_H_

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "test/native/mapping_trees.h"

namespace blockdelta::test {

struct Family {
  MappingTrees trees;
  std::vector<uint64_t> roots;
};

// An origin that changes, and its snapshots. The k-th, counted from 0, was made at time k + 1 and
// has only older mappings; whatever is written to gets another data block.
inline Family RandomFamily(std::mt19937_64* random) {
  const auto below = [&](uint64_t limit) { return (*random)() % limit; };
  // Entries a node, and up to how many keys that stays within the height a tree may have.
  constexpr std::pair<uint32_t, uint64_t> kShapes[] = {
      {3, 12}, {4, 40}, {7, 400}, {30, 2000}, {252, 2000}};
  const auto& [entries, most_keys] = kShapes[below(5)];
  Family family = {MappingTrees(entries), {}};
  const uint64_t keys = 1 + below(most_keys);
  uint64_t root = family.trees.Empty();
  uint64_t next_data = 1;
  const uint64_t devices = 2 + below(3);
  for (uint64_t time = 0; time < devices; time++) {
    const uint64_t changes = below(3) == 0 ? below(keys) : below(20);
    const uint64_t discards = below(4);
    for (uint64_t i = 0; i < changes; i++) {
      const uint64_t key = below(keys);
      root = below(4) < discards ? family.trees.Remove(root, key)
                                 : family.trees.Set(root, key, next_data++ << 24 | time);
    }
    if (below(10) == 0) root = family.trees.Empty();
    if (below(10) == 0 && family.trees.Height(root) < 8) root = family.trees.Raise(root);
    family.roots.push_back(root);
    family.trees.Share();
  }
  return family;
}

}  // namespace blockdelta::test

#endif  // BLOCKDELTA_TEST_NATIVE_TREE_FAMILY_H_
