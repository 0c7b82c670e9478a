// An image of dm-thin metadata under construction: its blocks, and how often each is referred to.
//
// Knows how blocks are made, shared and sealed; it does not know what they are for. Written for
// tests: what cannot go on ends the program with a sentence.
#ifndef BLOCKDELTA_TEST_NATIVE_THIN_IMAGE_H_
#define BLOCKDELTA_TEST_NATIVE_THIN_IMAGE_H_

#include <cstdint>
#include <string>
#include <vector>

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

  bool is_leaf() const { return flags == 2; }
  uint64_t* keys() { return reinterpret_cast<uint64_t*>(this + 1); }
  uint8_t* values() { return reinterpret_cast<uint8_t*>(keys() + max_entries); }
  // REQUIRES: values have 8 bytes.
  uint64_t* words() { return reinterpret_cast<uint64_t*>(values()); }
  // Index of the last key that is not above `key`, or -1.
  int Find(uint64_t key);
  void Insert(uint32_t index, uint64_t key, uint64_t word);
  void Remove(uint32_t index);
};
static_assert(sizeof(DiskNode) == 32, "the header of a node");

enum class BlockKind : uint8_t { kFree, kNode, kBitmap, kIndex, kSuperblock };

// As many entries as the kernel gives a node.
uint32_t MaxEntries(uint32_t value_bytes);

class ThinImage {
 public:
  ThinImage(uint64_t blocks, uint64_t data_blocks);
  ThinImage(ThinImage&& other) noexcept;
  ThinImage(const ThinImage&) = delete;
  ~ThinImage();

  uint64_t block_count() const { return kinds_.size(); }
  uint64_t used_blocks() const;
  uint8_t* block(uint64_t number) { return bytes_ + number * 4096; }
  DiskNode* node(uint64_t number) { return reinterpret_cast<DiskNode*>(block(number)); }

  // Numbers to hand out first, in this order.
  void Prefer(std::vector<uint64_t> numbers);
  // A block of zeros that is referred to once.
  uint64_t Allocate(BlockKind kind);
  uint64_t NewNode(bool is_leaf, uint32_t value_bytes);
  void Free(uint64_t number);
  // The lowest number that has never been handed out.
  uint64_t next_number() const { return next_number_; }

  // References to each metadata block and to each data block.
  std::vector<uint32_t>& references() { return references_; }
  std::vector<uint32_t>& data_references() { return data_references_; }

  // Gives one block the checksum of its kind, or all of them.
  void Seal(uint64_t number);
  void SealAll();
  // Writes a file, sparse where nothing is used.
  void Save(const std::string& path) const;

 private:
  uint8_t* bytes_;
  std::vector<BlockKind> kinds_;
  std::vector<uint32_t> references_;
  std::vector<uint32_t> data_references_;
  std::vector<uint64_t> preferred_;  // The next one last.
  uint64_t next_number_ = 1;
};

[[noreturn]] void Die(const std::string& what);

}  // namespace blockdelta::test

#endif  // BLOCKDELTA_TEST_NATIVE_THIN_IMAGE_H_
