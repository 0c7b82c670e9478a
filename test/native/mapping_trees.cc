#include "test/native/mapping_trees.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "native/base/crc32c.h"

namespace blockdelta::test {
namespace {

// Written out: they are part of what is tested.
constexpr size_t kBlockBytes = 4096;
constexpr uint32_t kNodeSalt = 121107;
constexpr uint32_t kSuperblockSalt = 160774;
constexpr uint32_t kSectorsPerBlock = 128;
constexpr uint64_t kDataBlocks = 1 << 30;

void Write32(uint8_t* at, uint32_t value) { std::memcpy(at, &value, sizeof(value)); }
void Write64(uint8_t* at, uint64_t value) { std::memcpy(at, &value, sizeof(value)); }

void Seal(uint8_t* block, uint32_t salt) {
  Write32(block, Crc32c(UINT32_MAX, block + 4, kBlockBytes - 4) ^ salt);
}

void WriteHead(uint8_t* block, uint64_t number, bool is_leaf, size_t entries, size_t max_entries,
               uint32_t value_bytes) {
  Write32(block + 4, is_leaf ? 2 : 1);
  Write64(block + 8, number);
  Write32(block + 16, static_cast<uint32_t>(entries));
  Write32(block + 20, static_cast<uint32_t>(max_entries));
  Write32(block + 24, value_bytes);
}

void WriteSuperblock(uint8_t* block, uint64_t blocks) {
  Write64(block + 32, 27022010);
  Write32(block + 40, 2);
  Write64(block + 64, kDataBlocks);
  Write64(block + 192, blocks);
  Write64(block + 320, blocks - 2);
  Write64(block + 328, blocks - 1);
  Write32(block + 336, kSectorsPerBlock);
  Write32(block + 340, 8);
  Write64(block + 344, blocks);
  Seal(block, kSuperblockSalt);
}

}  // namespace

MappingTrees::MappingTrees(uint32_t max_entries) : max_entries_(max_entries) {
  // Block 0 is the superblock's.
  nodes_.push_back({true, {}, {}});
}

uint64_t MappingTrees::Add(Node node) {
  nodes_.push_back(std::move(node));
  return nodes_.size() - 1;
}

uint64_t MappingTrees::Empty() { return Add({true, {}, {}}); }

uint64_t MappingTrees::Raise(uint64_t root) {
  const Node& node = nodes_[root];
  if (node.keys.empty()) return root;
  return Add({false, {node.keys[0]}, {root}});
}

uint64_t MappingTrees::Shadow(uint64_t number) {
  return number >= fresh_from_ ? number : Add(Node(nodes_[number]));
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

uint64_t MappingTrees::Set(uint64_t root, uint64_t key, uint64_t value) {
  root = Shadow(root);
  if (nodes_[root].keys.size() == max_entries_) {
    root = Add({false, {nodes_[root].keys[0]}, {root}});
  }
  uint64_t at = root;
  while (!nodes_[at].is_leaf) {
    size_t index = Child(nodes_[at], key);
    nodes_[at].keys[index] = std::min(nodes_[at].keys[index], key);
    const uint64_t child = Shadow(nodes_[at].values[index]);
    nodes_[at].values[index] = child;
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
  if (nodes_[number].is_leaf) {
    if (nodes_[number].keys[index] != key) return false;
  } else {
    const uint64_t child = Shadow(nodes_[number].values[index]);
    nodes_[number].values[index] = child;
    if (!RemoveBelow(child, key)) {
      if (index > 0) MergeChildren(number, index - 1);
      return false;
    }
  }
  Node& node = nodes_[number];
  node.keys.erase(node.keys.begin() + static_cast<ptrdiff_t>(index));
  node.values.erase(node.values.begin() + static_cast<ptrdiff_t>(index));
  return node.keys.empty();
}

// Two neighbours become one if that leaves room.
void MappingTrees::MergeChildren(uint64_t parent, size_t left) {
  const uint64_t upper = nodes_[parent].values[left + 1];
  if (nodes_[nodes_[parent].values[left]].keys.size() + nodes_[upper].keys.size() >=
      max_entries_ / 2) {
    return;
  }
  const uint64_t lower = Shadow(nodes_[parent].values[left]);
  Node& into = nodes_[lower];
  into.keys.insert(into.keys.end(), nodes_[upper].keys.begin(), nodes_[upper].keys.end());
  into.values.insert(into.values.end(), nodes_[upper].values.begin(), nodes_[upper].values.end());
  Node& node = nodes_[parent];
  node.values[left] = lower;
  node.keys.erase(node.keys.begin() + static_cast<ptrdiff_t>(left) + 1);
  node.values.erase(node.values.begin() + static_cast<ptrdiff_t>(left) + 1);
}

bool MappingTrees::Has(uint64_t root, uint64_t key) const {
  const Node& node = nodes_[root];
  if (!node.is_leaf) return Has(node.values[Child(node, key)], key);
  return std::binary_search(node.keys.begin(), node.keys.end(), key);
}

uint64_t MappingTrees::Remove(uint64_t root, uint64_t key) {
  if (!Has(root, key)) return root;
  root = Shadow(root);
  if (RemoveBelow(root, key)) return Empty();
  while (!nodes_[root].is_leaf && nodes_[root].keys.size() == 1) root = nodes_[root].values[0];
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

std::set<uint64_t> MappingTrees::Nodes(uint64_t root) const {
  std::set<uint64_t> nodes = {root};
  if (nodes_[root].is_leaf) return nodes;
  for (const uint64_t child : nodes_[root].values) nodes.merge(Nodes(child));
  return nodes;
}

unsigned MappingTrees::Height(uint64_t root) const {
  return nodes_[root].is_leaf ? 1 : 1 + Height(nodes_[root].values[0]);
}

std::vector<uint8_t> MappingTrees::Image() const {
  std::vector<uint8_t> image(nodes_.size() * kBlockBytes);
  for (size_t number = 1; number < nodes_.size(); number++) {
    const Node& node = nodes_[number];
    uint8_t* const block = &image[number * kBlockBytes];
    WriteHead(block, number, node.is_leaf, node.keys.size(), max_entries_, 8);
    for (size_t i = 0; i < node.keys.size(); i++) {
      Write64(block + 32 + 8 * i, node.keys[i]);
      Write64(block + 32 + 8 * (max_entries_ + i), node.values[i]);
    }
    Seal(block, kNodeSalt);
  }
  return image;
}

std::vector<uint8_t> MappingTrees::PoolImage(const std::vector<TreeDevice>& devices) const {
  constexpr size_t kMappingEntries = 252;
  constexpr size_t kDetailsEntries = 126;
  std::vector<uint8_t> image = Image();
  const size_t blocks = nodes_.size() + 2;
  image.resize(blocks * kBlockBytes);
  uint8_t* const mappings = &image[(blocks - 2) * kBlockBytes];
  uint8_t* const details = &image[(blocks - 1) * kBlockBytes];
  WriteHead(mappings, blocks - 2, true, devices.size(), kMappingEntries, 8);
  WriteHead(details, blocks - 1, true, devices.size(), kDetailsEntries, 24);
  for (size_t i = 0; i < devices.size(); i++) {
    Write64(mappings + 32 + 8 * i, devices[i].id);
    Write64(mappings + 32 + 8 * (kMappingEntries + i), devices[i].root);
    Write64(details + 32 + 8 * i, devices[i].id);
    uint8_t* const value = details + 32 + 8 * kDetailsEntries + 24 * i;
    Write64(value, Content(devices[i].root).size());
    Write32(value + 16, devices[i].creation_time);
    Write32(value + 20, devices[i].creation_time);
  }
  Seal(mappings, kNodeSalt);
  Seal(details, kNodeSalt);
  WriteSuperblock(&image[0], blocks);
  return image;
}

}  // namespace blockdelta::test
