// Btrees in an image under construction: built from sorted entries, then changed copy-on-write as
// the kernel does it, so that devices share their nodes.
#ifndef BLOCKDELTA_TEST_NATIVE_THIN_IMAGE_TREE_H_
#define BLOCKDELTA_TEST_NATIVE_THIN_IMAGE_TREE_H_

#include <array>
#include <cstdint>
#include <vector>

#include "test/native/thin_image.h"

namespace blockdelta::test {

struct TreeEntry {
  uint64_t key;
  std::array<uint8_t, 24> value;
};

// An entry whose value is `size` bytes from `value` on.
TreeEntry MakeEntry(uint64_t key, const void* value, size_t size);

// Builds a tree of entries in ascending order, its nodes filled to `fill` of their room; the root.
uint64_t BuildTree(ThinImage* image, const std::vector<TreeEntry>& entries, uint32_t value_bytes,
                   double fill);

// A device's mapping tree. Block numbers and values are the format's; data references are kept.
class MappingTree {
 public:
  MappingTree(ThinImage* image, uint64_t root) : image_(image), root_(root) {}

  uint64_t root() const { return root_; }
  // True if the key was not there.
  bool Set(uint64_t key, uint64_t value);
  // True if the key was there and is gone: only where the leaf stays at least a third full.
  bool Remove(uint64_t key);
  // Takes the leaf that would hold `key` out of the tree; entries gone, 0 if its parent would be
  // left with less than a third.
  uint64_t RemoveLeaf(uint64_t key);

 private:
  uint64_t Shadow(uint64_t number);
  uint64_t Split(DiskNode* node);
  void SplitRoot();
  DiskNode* ShadowChild(DiskNode* parent, uint32_t index);

  ThinImage* image_;
  uint64_t root_;
};

}  // namespace blockdelta::test

#endif  // BLOCKDELTA_TEST_NATIVE_THIN_IMAGE_TREE_H_
