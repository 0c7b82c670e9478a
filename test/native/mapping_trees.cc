#include "test/native/mapping_trees.h"

#include <algorithm>

namespace blockdelta::test {

uint64_t MappingTrees::Add(Node node) {
  nodes_.push_back(std::move(node));
  return nodes_.size() - 1;
}

uint64_t MappingTrees::Build(std::vector<std::pair<uint64_t, uint64_t>> entries, double fill) {
  const auto wanted = static_cast<size_t>(max_entries_ * fill);
  for (bool is_leaf = true;; is_leaf = false) {
    const size_t count =
        entries.size() <= max_entries_ ? 1 : (entries.size() + wanted - 1) / wanted;
    std::vector<std::pair<uint64_t, uint64_t>> above;
    for (size_t i = 0, next = 0; i < count; i++) {
      Node node = {is_leaf, {}, {}};
      for (size_t left = (entries.size() - next) / (count - i); left > 0; left--, next++) {
        node.keys.push_back(entries[next].first);
        node.values.push_back(entries[next].second);
      }
      const uint64_t first = node.keys.empty() ? 0 : node.keys[0];
      above.push_back({first, Add(std::move(node))});
    }
    if (count == 1) return above[0].second;
    entries = std::move(above);
  }
}

uint64_t MappingTrees::Raise(uint64_t root) {
  const Node& node = nodes_[root];
  if (node.keys.empty()) return root;
  return Add({false, {node.keys[0]}, {root}});
}

uint64_t MappingTrees::Shadow(uint64_t number) {
  return number >= fresh_from_ ? number : Add(Node(nodes_[number]));
}

uint64_t MappingTrees::ShadowChild(uint64_t number, size_t index) {
  const uint64_t child = Shadow(nodes_[number].values[index]);
  return nodes_[number].values[index] = child;
}

size_t MappingTrees::Child(const Node& node, uint64_t key) const {
  const auto above = std::upper_bound(node.keys.begin(), node.keys.end(), key);
  return above == node.keys.begin() ? 0 : static_cast<size_t>(above - node.keys.begin()) - 1;
}

// Moves the upper half of a node into a new one, which is returned.
uint64_t MappingTrees::SplitOff(uint64_t number) {
  Node upper = nodes_[number];
  const auto half = static_cast<ptrdiff_t>(upper.keys.size() / 2);
  upper.keys.erase(upper.keys.begin(), upper.keys.begin() + half);
  upper.values.erase(upper.values.begin(), upper.values.begin() + half);
  nodes_[number].keys.resize(static_cast<size_t>(half));
  nodes_[number].values.resize(static_cast<size_t>(half));
  return Add(std::move(upper));
}

void MappingTrees::Erase(uint64_t number, size_t index) {
  Node& node = nodes_[number];
  node.keys.erase(node.keys.begin() + static_cast<ptrdiff_t>(index));
  node.values.erase(node.values.begin() + static_cast<ptrdiff_t>(index));
}

uint64_t MappingTrees::Set(uint64_t root, uint64_t key, uint64_t value) {
  root = Shadow(root);
  if (nodes_[root].keys.size() == max_entries_) {
    root = Add({false, {nodes_[root].keys[0]}, {root}});
  }
  uint64_t at = root;
  while (!nodes_[at].is_leaf) {
    size_t index = Child(nodes_[at], key);
    nodes_[at].keys[index] = std::min(nodes_[at].keys[index], key);
    const uint64_t child = ShadowChild(at, index);
    if (nodes_[child].keys.size() == max_entries_) {
      const uint64_t upper = SplitOff(child);
      Node& parent = nodes_[at];
      const auto next = static_cast<ptrdiff_t>(index) + 1;
      parent.keys.insert(parent.keys.begin() + next, nodes_[upper].keys[0]);
      parent.values.insert(parent.values.begin() + next, upper);
      index = Child(parent, key);
    }
    at = nodes_[at].values[index];
  }
  Node& leaf = nodes_[at];
  const auto place = std::lower_bound(leaf.keys.begin(), leaf.keys.end(), key);
  const auto index = place - leaf.keys.begin();
  if (place != leaf.keys.end() && *place == key) {
    leaf.values[static_cast<size_t>(index)] = value;
    return root;
  }
  leaf.keys.insert(place, key);
  leaf.values.insert(leaf.values.begin() + index, value);
  return root;
}

// True if the node, a fresh one, is left without entries.
bool MappingTrees::RemoveBelow(uint64_t number, uint64_t key) {
  const size_t index = Child(nodes_[number], key);
  if (!nodes_[number].is_leaf && !RemoveBelow(ShadowChild(number, index), key)) {
    if (index > 0) MergeChildren(number, index - 1);
    return false;
  }
  Erase(number, index);
  return nodes_[number].keys.empty();
}

// Two neighbours become one if that leaves room.
void MappingTrees::MergeChildren(uint64_t parent, size_t left) {
  const uint64_t upper = nodes_[parent].values[left + 1];
  if (nodes_[nodes_[parent].values[left]].keys.size() + nodes_[upper].keys.size() >=
      max_entries_ / 2) {
    return;
  }
  Node& into = nodes_[ShadowChild(parent, left)];
  into.keys.insert(into.keys.end(), nodes_[upper].keys.begin(), nodes_[upper].keys.end());
  into.values.insert(into.values.end(), nodes_[upper].values.begin(), nodes_[upper].values.end());
  Erase(parent, left + 1);
}

std::pair<uint64_t, uint64_t> MappingTrees::Leaf(uint64_t root, uint64_t key) const {
  uint64_t parent = 0;
  while (!nodes_[root].is_leaf) {
    parent = root;
    root = nodes_[root].values[Child(nodes_[root], key)];
  }
  return {root, parent};
}

uint64_t MappingTrees::Remove(uint64_t root, uint64_t key) {
  const Node& leaf = nodes_[Leaf(root, key).first];
  if (!std::binary_search(leaf.keys.begin(), leaf.keys.end(), key)) return root;
  root = Shadow(root);
  if (RemoveBelow(root, key)) return Empty();
  while (!nodes_[root].is_leaf && nodes_[root].keys.size() == 1) root = nodes_[root].values[0];
  return root;
}

bool MappingTrees::StaysFull(uint64_t number) const {
  return nodes_[number].keys.size() > max_entries_ / 3 + 1;
}

uint64_t MappingTrees::Discard(uint64_t root, uint64_t key) {
  return StaysFull(Leaf(root, key).first) ? Remove(root, key) : root;
}

uint64_t MappingTrees::DiscardLeaf(uint64_t root, uint64_t key) {
  const auto [leaf, parent] = Leaf(root, key);
  if (parent == 0 || !StaysFull(parent)) return root;
  root = Shadow(root);
  uint64_t at = root;
  size_t index = Child(nodes_[at], key);
  while (nodes_[at].values[index] != leaf) {
    at = ShadowChild(at, index);
    index = Child(nodes_[at], key);
  }
  Erase(at, index);
  return root;
}

Mappings MappingTrees::Content(uint64_t root) const {
  Mappings content;
  for (const uint64_t number : Nodes(root)) {
    const Node& node = nodes_[number];
    if (!node.is_leaf) continue;
    for (size_t i = 0; i < node.keys.size(); i++) content[node.keys[i]] = node.values[i];
  }
  return content;
}

uint64_t MappingTrees::CountMapped(uint64_t root) const {
  if (nodes_[root].is_leaf) return nodes_[root].keys.size();
  uint64_t mapped = 0;
  for (const uint64_t child : nodes_[root].values) mapped += CountMapped(child);
  return mapped;
}

std::set<uint64_t> MappingTrees::Nodes(uint64_t root) const {
  std::set<uint64_t> nodes = {root};
  if (nodes_[root].is_leaf) return nodes;
  for (const uint64_t child : nodes_[root].values) nodes.merge(Nodes(child));
  return nodes;
}

unsigned MappingTrees::Height(uint64_t root) const {
  return nodes_[root].is_leaf ? 1 : 1 + Height(nodes_[root].values[0]);
}

Family RandomFamily(std::mt19937_64* random) {
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
