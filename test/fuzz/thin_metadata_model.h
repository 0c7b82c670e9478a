// A slow, plain reader of thin metadata in memory, to hold the fast one against.
//
// Shares the checksum and the offsets of the format with it, nothing else: every tree is read
// whole, node by node, into a map.
#ifndef BLOCKDELTA_TEST_FUZZ_THIN_METADATA_MODEL_H_
#define BLOCKDELTA_TEST_FUZZ_THIN_METADATA_MODEL_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "native/thin/block_source.h"
#include "native/thin/device_tree.h"
#include "native/thin/metadata_block.h"
#include "native/thin/thin_format.h"

namespace blockdelta::test {

using ModelValue = std::array<uint8_t, 24>;
using ModelTree = std::map<uint64_t, ModelValue>;

class ThinMetadataModel {
 public:
  explicit ThinMetadataModel(const std::vector<uint8_t>& image) : image_(image) {}

  // All entries of a tree, or nothing if any node of it is not sound.
  std::optional<ModelTree> Tree(uint64_t root, uint64_t key_end, uint32_t value_bytes) const {
    Visit visit = {value_bytes, -1, {}};
    if (!ReadNode(root, 0, key_end, 0, &visit)) return std::nullopt;
    return visit.entries;
  }

  // The devices of both trees, or nothing if these are not sound or do not match.
  std::optional<std::vector<ThinDevice>> Devices(uint64_t mapping_root,
                                                 uint64_t details_root) const {
    const auto roots = Tree(mapping_root, kMaxDeviceId + 1, 8);
    const auto details = Tree(details_root, kMaxDeviceId + 1, details_format::kValueBytes);
    if (!roots.has_value() || !details.has_value() || roots->size() != details->size()) {
      return std::nullopt;
    }
    std::vector<ThinDevice> devices;
    for (const auto& [id, value] : *roots) {
      const auto found = details->find(id);
      const uint64_t root = ReadLe64(value.data());
      if (found == details->end() || root == 0 || root >= blocks()) return std::nullopt;
      const uint8_t* const detail = found->second.data();
      devices.push_back({id, root, ReadLe64(detail), ReadLe64(detail + 8), ReadLe32(detail + 16),
                         ReadLe32(detail + 20)});
    }
    return devices;
  }

  // Virtual block to data block of one device.
  std::optional<std::map<uint64_t, uint64_t>> Mappings(uint64_t root, uint64_t data_blocks) const {
    const auto tree = Tree(root, UINT64_MAX, 8);
    if (!tree.has_value()) return std::nullopt;
    std::map<uint64_t, uint64_t> mappings;
    for (const auto& [block, value] : *tree) {
      mappings[block] = ReadLe64(value.data()) >> 24;
      if (data_blocks != 0 && mappings[block] >= data_blocks) return std::nullopt;
    }
    return mappings;
  }

 private:
  struct Visit {
    uint32_t value_bytes;
    int leaf_depth;  // Of the first leaf; -1: none seen yet.
    ModelTree entries;
  };

  uint64_t blocks() const { return image_.size() / kMetadataBlockBytes; }

  bool ReadNode(uint64_t number, uint64_t low, uint64_t high, int depth, Visit* visit) const {
    if (number == 0 || number >= blocks() || depth >= static_cast<int>(kMaxTreeHeight)) {
      return false;
    }
    const uint8_t* const block = &image_[number * kMetadataBlockBytes];
    const uint32_t flags = ReadLe32(block + 4);
    const uint64_t count = ReadLe32(block + 16);
    const uint64_t room = ReadLe32(block + 20);
    const uint64_t value_bytes = ReadLe32(block + 24);
    const bool is_leaf = flags == 2;
    if (ReadLe32(block) != ChecksumOf(block, kNodeSalt) || ReadLe64(block + 8) != number ||
        (flags != 1 && flags != 2) || value_bytes != (is_leaf ? visit->value_bytes : 8) ||
        32 + room * (8 + value_bytes) > kMetadataBlockBytes || count > room ||
        (count == 0 && !(is_leaf && low == 0))) {
      return false;
    }
    if (is_leaf && visit->leaf_depth == -1) visit->leaf_depth = depth;
    if (is_leaf ? visit->leaf_depth != depth
                : visit->leaf_depth != -1 && visit->leaf_depth <= depth) {
      return false;
    }
    const uint8_t* const values = block + 32 + room * 8;
    for (uint64_t i = 0; i < count; i++) {
      const uint64_t key = ReadLe64(block + 32 + i * 8);
      const uint64_t end = i + 1 < count ? ReadLe64(block + 40 + i * 8) : high;
      if (key < low || key >= end || end > high) return false;
      if (is_leaf) {
        std::copy_n(values + i * value_bytes, value_bytes, visit->entries[key].begin());
      } else if (!ReadNode(ReadLe64(values + i * 8), key, end, depth + 1, visit)) {
        return false;
      }
    }
    return true;
  }

  const std::vector<uint8_t>& image_;
};

}  // namespace blockdelta::test

#endif  // BLOCKDELTA_TEST_FUZZ_THIN_METADATA_MODEL_H_
