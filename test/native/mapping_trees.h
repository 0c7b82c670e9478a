// Mapping trees in memory that share nodes as the kernel's do, with nodes as small as a test likes.
//
// Written apart from the reader and from the generator of images: it keeps nodes as lists and makes
// blocks of them at the end. Trees may be as odd as the format allows: unequal height, roots of one
// child, neighbours merged or split without need.
#ifndef BLOCKDELTA_TEST_NATIVE_MAPPING_TREES_H_
#define BLOCKDELTA_TEST_NATIVE_MAPPING_TREES_H_

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "native/thin/block_source.h"

namespace blockdelta::test {

// Virtual block to value: (data block << 24) | time.
using Mappings = std::map<uint64_t, uint64_t>;

// Blocks in memory; counts how often each was read.
class MemorySource : public BlockSource {
 public:
  MemorySource(std::vector<uint8_t> bytes, size_t batch_blocks);

  const std::string& path() const override { return path_; }
  uint64_t block_count() const override { return bytes_.size() / kMetadataBlockBytes; }
  size_t batch_blocks() const override { return batch_blocks_; }
  Status Read(Span<const uint64_t> numbers, uint8_t* out) override;

  uint8_t* block(uint64_t number) { return &bytes_[number * kMetadataBlockBytes]; }
  // Gives a node that was changed a good checksum again.
  void Seal(uint64_t number);
  const std::map<uint64_t, unsigned>& reads() const { return reads_; }
  void ForgetReads() { reads_.clear(); }

 private:
  std::string path_ = "memory";
  std::vector<uint8_t> bytes_;
  size_t batch_blocks_;
  std::map<uint64_t, unsigned> reads_;
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
  std::vector<uint8_t> Image() const;

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
  bool RemoveBelow(uint64_t number, uint64_t key);
  void MergeChildren(uint64_t parent, size_t left);

  const uint32_t max_entries_;
  std::vector<Node> nodes_;
  size_t fresh_from_ = 0;
};

}  // namespace blockdelta::test

#endif  // BLOCKDELTA_TEST_NATIVE_MAPPING_TREES_H_
