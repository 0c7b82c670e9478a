// Blocks of dm-thin metadata, made of mapping trees: for tests of what reads them.
//
// Offsets and salts are written out: they are part of what is tested.
#ifndef BLOCKDELTA_TEST_NATIVE_THIN_IMAGE_H_
#define BLOCKDELTA_TEST_NATIVE_THIN_IMAGE_H_

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "test/native/mapping_trees.h"

namespace blockdelta::test {

// A btree node as it lies on disk; keys[max_entries] and values[max_entries] follow.
struct DiskNode {
  uint32_t checksum;
  uint32_t flags;
  uint64_t number;
  uint32_t entries;
  uint32_t max_entries;
  uint32_t value_bytes;
  uint32_t padding;

  static DiskNode* At(uint8_t* block) { return reinterpret_cast<DiskNode*>(block); }
  bool is_leaf() const { return flags == 2; }
  uint64_t* keys() { return reinterpret_cast<uint64_t*>(this + 1); }
  // REQUIRES: values have 8 bytes.
  uint64_t* words() { return keys() + max_entries; }
  // Gives it the checksum of a node, or of another kind of block.
  void Seal(uint32_t salt = 121'107);
};
static_assert(sizeof(DiskNode) == 32, "the header of a node");

struct TreeDevice {
  uint64_t id;
  uint64_t root;
  uint32_t created;
  uint32_t snapshotted = 0;
  uint64_t transaction_id = 0;
  uint64_t mapped = 0;  // Counted when an image is made.
};

// What the superblock leads to. Devices come in the order of their ids.
struct PoolPlan {
  std::vector<TreeDevice> devices;
  // Those of a metadata snapshot.
  std::optional<std::vector<TreeDevice>> held;
  uint32_t time = 0;
  uint64_t transaction_id = 0;
  uint32_t data_block_sectors = 128;
  uint64_t data_blocks = 1 << 30;
  // With space maps, and without nodes that nothing leads to, as thin_check wants it. Otherwise
  // each node has the block of its number.
  bool is_complete = false;
  // Puts the nodes of a complete image in random order.
  std::mt19937_64* shuffle = nullptr;
};

struct ThinPool {
  std::vector<uint8_t> image;
  // Of the current superblock; roots are blocks.
  std::vector<TreeDevice> devices;
  uint64_t held_root = 0;

  uint64_t blocks() const { return image.size() / 4096; }
};

ThinPool MakePool(const MappingTrees& trees, const PoolPlan& plan);

}  // namespace blockdelta::test

#endif  // BLOCKDELTA_TEST_NATIVE_THIN_IMAGE_H_
