// The space maps of an image: how often each metadata block and each data block is referred to.
#ifndef BLOCKDELTA_TEST_NATIVE_THIN_IMAGE_SPACE_MAP_H_
#define BLOCKDELTA_TEST_NATIVE_THIN_IMAGE_SPACE_MAP_H_

#include <cstdint>

#include "test/native/thin_image.h"

namespace blockdelta::test {

// As it lies in the superblock.
struct SpaceMapRoot {
  uint64_t blocks;
  uint64_t allocated;
  uint64_t bitmap_root;
  uint64_t reference_root;
};
static_assert(sizeof(SpaceMapRoot) == 32, "what the superblock has of a space map");

SpaceMapRoot BuildDataSpaceMap(ThinImage* image);
// Counts its own blocks too, so it comes last.
SpaceMapRoot BuildMetadataSpaceMap(ThinImage* image);

}  // namespace blockdelta::test

#endif  // BLOCKDELTA_TEST_NATIVE_THIN_IMAGE_SPACE_MAP_H_
