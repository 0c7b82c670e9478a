#include "test/native/thin_image_tree.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace blockdelta::test {
namespace {

constexpr uint32_t kWordBytes = 8;

// One level of nodes over `entries`; entries that lead to them.
std::vector<TreeEntry> BuildLevel(ThinImage* image, const std::vector<TreeEntry>& entries,
                                  bool is_leaf, uint32_t value_bytes, double fill) {
  const uint32_t room = MaxEntries(value_bytes);
  const uint32_t wanted =
      std::min(room, std::max(room / 2 + 1, static_cast<uint32_t>(room * fill)));
  const size_t nodes = entries.size() <= room ? 1 : (entries.size() + wanted - 1) / wanted;
  std::vector<TreeEntry> above;
  size_t next = 0;
  for (size_t i = 0; i < nodes; i++) {
    const size_t count = (entries.size() - next) / (nodes - i);
    const uint64_t number = image->NewNode(is_leaf, value_bytes);
    DiskNode* node = image->node(number);
    node->entries = static_cast<uint32_t>(count);
    for (size_t j = 0; j < count; j++) {
      node->keys()[j] = entries[next + j].key;
      std::memcpy(node->values() + j * value_bytes, entries[next + j].value.data(), value_bytes);
    }
    above.push_back(MakeEntry(count > 0 ? node->keys()[0] : 0, &number, kWordBytes));
    next += count;
  }
  return above;
}

}  // namespace

TreeEntry MakeEntry(uint64_t key, const void* value, size_t size) {
  TreeEntry entry = {key, {}};
  std::memcpy(entry.value.data(), value, size);
  return entry;
}

uint64_t BuildTree(ThinImage* image, const std::vector<TreeEntry>& entries, uint32_t value_bytes,
                   double fill) {
  std::vector<TreeEntry> level = BuildLevel(image, entries, true, value_bytes, fill);
  while (level.size() > 1) level = BuildLevel(image, level, false, kWordBytes, fill);
  uint64_t root;
  std::memcpy(&root, level[0].value.data(), kWordBytes);
  return root;
}

// A block with the same content that may be written.
uint64_t MappingTree::Shadow(uint64_t number) {
  std::vector<uint32_t>& references = image_->references();
  if (references[number] == 1) return number;
  const uint64_t copy = image_->Allocate(BlockKind::kNode);
  DiskNode* node = image_->node(copy);
  std::memcpy(image_->block(copy), image_->block(number), 4096);
  node->number = copy;
  references[number]--;
  for (uint32_t i = 0; i < node->entries; i++) {
    if (node->is_leaf()) {
      image_->data_references()[node->words()[i] >> 24]++;
    } else {
      references[node->words()[i]]++;
    }
  }
  return copy;
}

// Moves the upper half into a new node.
uint64_t MappingTree::Split(DiskNode* node) {
  const uint64_t number = image_->NewNode(node->is_leaf(), kWordBytes);
  DiskNode* right = image_->node(number);
  const uint32_t kept = node->entries / 2;
  right->entries = node->entries - kept;
  std::memcpy(right->keys(), node->keys() + kept, right->entries * 8);
  std::memcpy(right->words(), node->words() + kept, right->entries * 8);
  node->entries = kept;
  return number;
}

// The root stays where it is; what it held goes into two children.
void MappingTree::SplitRoot() {
  DiskNode* root = image_->node(root_);
  const uint64_t left_number = image_->NewNode(root->is_leaf(), kWordBytes);
  DiskNode* left = image_->node(left_number);
  left->entries = root->entries;
  std::memcpy(left->keys(), root->keys(), root->entries * 8);
  std::memcpy(left->words(), root->words(), root->entries * 8);
  const uint64_t right_number = Split(left);
  root->flags = 1;
  root->entries = 0;
  root->Insert(0, left->keys()[0], left_number);
  root->Insert(1, image_->node(right_number)->keys()[0], right_number);
}

DiskNode* MappingTree::ShadowChild(DiskNode* parent, uint32_t index) {
  parent->words()[index] = Shadow(parent->words()[index]);
  return image_->node(parent->words()[index]);
}

bool MappingTree::Set(uint64_t key, uint64_t value) {
  root_ = Shadow(root_);
  DiskNode* node = image_->node(root_);
  if (node->entries == node->max_entries) SplitRoot();
  while (!node->is_leaf()) {
    int index = node->Find(key);
    if (index < 0) node->keys()[index = 0] = key;
    DiskNode* child = ShadowChild(node, static_cast<uint32_t>(index));
    if (child->entries == child->max_entries) {
      const uint64_t right = Split(child);
      const uint64_t first = image_->node(right)->keys()[0];
      node->Insert(static_cast<uint32_t>(index) + 1, first, right);
      if (key >= first) child = image_->node(right);
    }
    node = child;
  }
  image_->data_references()[value >> 24]++;
  const int index = node->Find(key);
  if (index >= 0 && node->keys()[index] == key) {
    image_->data_references()[node->words()[index] >> 24]--;
    node->words()[index] = value;
    return false;
  }
  node->Insert(static_cast<uint32_t>(index + 1), key, value);
  return true;
}

bool MappingTree::Remove(uint64_t key) {
  DiskNode* node = image_->node(root_);
  int index = node->Find(key);
  for (; index >= 0 && !node->is_leaf(); index = node->Find(key)) {
    node = image_->node(node->words()[index]);
  }
  if (index < 0 || node->keys()[index] != key || node->entries <= node->max_entries / 3 + 1) {
    return false;
  }
  root_ = Shadow(root_);
  node = image_->node(root_);
  while (!node->is_leaf()) node = ShadowChild(node, static_cast<uint32_t>(node->Find(key)));
  index = node->Find(key);
  image_->data_references()[node->words()[index] >> 24]--;
  node->Remove(static_cast<uint32_t>(index));
  return true;
}

uint64_t MappingTree::RemoveLeaf(uint64_t key) {
  DiskNode* parent = nullptr;
  DiskNode* node = image_->node(root_);
  while (!node->is_leaf()) {
    const int index = node->Find(key);
    if (index < 0) return 0;
    parent = node;
    node = image_->node(node->words()[index]);
  }
  if (parent == nullptr || parent->entries <= parent->max_entries / 3 + 1) return 0;
  root_ = Shadow(root_);
  parent = image_->node(root_);
  for (;;) {
    const auto index = static_cast<uint32_t>(parent->Find(key));
    const uint64_t child = parent->words()[index];
    node = image_->node(child);
    if (!node->is_leaf()) {
      parent = ShadowChild(parent, index);
      continue;
    }
    parent->Remove(index);
    // Who else refers to the leaf keeps its references.
    if (--image_->references()[child] > 0) return node->entries;
    for (uint32_t i = 0; i < node->entries; i++)
      image_->data_references()[node->words()[i] >> 24]--;
    image_->Free(child);
    return node->entries;
  }
}

}  // namespace blockdelta::test
