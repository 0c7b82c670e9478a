#include "test/native/thin_image_space_map.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "test/native/thin_image_tree.h"

namespace blockdelta::test {
namespace {

constexpr uint64_t kCountsPerBitmap = (4096 - 16) * 4;
constexpr double kFill = 0.9;

struct IndexEntry {
  uint64_t bitmap;
  uint32_t free;
  uint32_t none_free_before;
};
static_assert(sizeof(IndexEntry) == 16, "an entry of the index");

using Counts = std::vector<uint32_t>;

uint64_t BitmapsFor(const Counts& counts) {
  return (counts.size() + kCountsPerBitmap - 1) / kCountsPerBitmap;
}

// Two bits a block, the high one first; 3 means: the count is in the tree of counts.
IndexEntry FillBitmap(ThinImage* image, uint64_t bitmap, const Counts& counts, uint64_t index) {
  const uint64_t first = index * kCountsPerBitmap;
  const uint64_t count = std::min<uint64_t>(kCountsPerBitmap, counts.size() - first);
  uint8_t* bits = image->block(bitmap) + 16;
  std::memcpy(image->block(bitmap) + 8, &bitmap, sizeof(bitmap));
  IndexEntry entry = {bitmap, 0, static_cast<uint32_t>(count)};
  for (uint64_t i = 0; i < count; i++) {
    const uint32_t references = std::min(counts[first + i], 3u);
    if (references == 0 && entry.free++ == 0) entry.none_free_before = static_cast<uint32_t>(i);
    const unsigned shift = 2 * (i % 4);
    if ((references & 2) != 0) bits[i / 4] |= static_cast<uint8_t>(1u << shift);
    if ((references & 1) != 0) bits[i / 4] |= static_cast<uint8_t>(2u << shift);
  }
  return entry;
}

uint64_t BuildReferenceTree(ThinImage* image, const Counts& counts) {
  std::vector<TreeEntry> entries;
  for (uint64_t i = 0; i < counts.size(); i++) {
    if (counts[i] > 2) entries.push_back(MakeEntry(i, &counts[i], sizeof(counts[i])));
  }
  return BuildTree(image, entries, sizeof(uint32_t), kFill);
}

uint64_t Allocated(const Counts& counts) {
  return counts.size() -
         static_cast<uint64_t>(std::count(counts.begin(), counts.end(), uint32_t{0}));
}

}  // namespace

SpaceMapRoot BuildDataSpaceMap(ThinImage* image) {
  const Counts& counts = image->data_references();
  std::vector<TreeEntry> index;
  for (uint64_t i = 0; i < BitmapsFor(counts); i++) {
    const IndexEntry entry = FillBitmap(image, image->Allocate(BlockKind::kBitmap), counts, i);
    index.push_back(MakeEntry(i, &entry, sizeof(entry)));
  }
  const uint64_t bitmap_root = BuildTree(image, index, sizeof(IndexEntry), kFill);
  return {counts.size(), Allocated(counts), bitmap_root, BuildReferenceTree(image, counts)};
}

SpaceMapRoot BuildMetadataSpaceMap(ThinImage* image) {
  const Counts& counts = image->references();
  // Every block of the map is allocated before the first count is written. None of them is counted
  // more than once, so that the tree is right although it comes first.
  const uint64_t reference_root = BuildReferenceTree(image, counts);
  const uint64_t index = image->Allocate(BlockKind::kIndex);
  std::vector<uint64_t> bitmaps(BitmapsFor(counts));
  for (uint64_t& bitmap : bitmaps) bitmap = image->Allocate(BlockKind::kBitmap);
  std::memcpy(image->block(index) + 8, &index, sizeof(index));
  for (uint64_t i = 0; i < bitmaps.size(); i++) {
    const IndexEntry entry = FillBitmap(image, bitmaps[i], counts, i);
    std::memcpy(image->block(index) + 16 + 16 * i, &entry, sizeof(entry));
  }
  return {counts.size(), Allocated(counts), index, reference_root};
}

}  // namespace blockdelta::test
