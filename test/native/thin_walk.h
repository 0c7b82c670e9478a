// What a walk of mapping trees finds, and what it should find by plain maps of the trees' content:
// for tests and fuzz targets.
#ifndef BLOCKDELTA_TEST_NATIVE_THIN_WALK_H_
#define BLOCKDELTA_TEST_NATIVE_THIN_WALK_H_

#include <algorithm>
#include <map>
#include <vector>

#include "native/thin/delta_walk.h"
#include "test/native/mapping_trees.h"
#include "test/native/wire.h"

namespace blockdelta::test {

// A run a block, written out.
using BlockKinds = std::map<uint64_t, DeltaKind>;

// Without a left side, that is empty.
inline BlockKinds ExpectedKinds(const Mappings& left, const Mappings& right,
                                bool include_same = false, KeyRange range = KeyRange()) {
  BlockKinds kinds;
  for (const auto& [block, value] : left) {
    if (right.count(block) == 0) kinds[block] = DeltaKind::kLeftOnly;
  }
  for (const auto& [block, value] : right) {
    const auto other = left.find(block);
    if (other == left.end()) {
      kinds[block] = DeltaKind::kRightOnly;
    } else if (other->second >> 24 != value >> 24) {
      kinds[block] = DeltaKind::kDifferent;
    } else if (include_same) {
      kinds[block] = DeltaKind::kSame;
    }
  }
  kinds.erase(kinds.begin(), kinds.lower_bound(range.low));
  kinds.erase(kinds.lower_bound(range.high), kinds.end());
  return kinds;
}

// The blocks as ranges of bytes: joined, clipped to [offset, size).
inline std::vector<Range> RangesOf(const BlockKinds& kinds, uint64_t block_bytes, uint64_t offset,
                                   uint64_t size) {
  std::vector<Range> ranges;
  for (const auto& [block, kind] : kinds) {
    if (block > size / block_bytes) break;
    const uint64_t begin = std::max(block * block_bytes, offset);
    const uint64_t end = std::min((block + 1) * block_bytes, size);
    if (begin < end) AddRange(&ranges, begin, end - begin);
  }
  return ranges;
}

// The whole walk. Fails as it does, or with BROKEN_WALK if a step breaks what must hold of each.
inline Result<BlockKinds> WalkAll(MappingReader* reader, const DeltaSides& sides,
                                  KeyRange range = KeyRange()) {
  DeltaWalk walk(reader, sides);
  RETURN_IF_ERROR(walk.Seek(range));
  BlockKinds kinds;
  uint64_t examined = range.low;
  for (unsigned steps = 0; !walk.done(); steps++) {
    Result<Span<const DeltaRun>> runs = walk.Read();
    RETURN_IF_ERROR(runs);
    bool is_sound = steps < 100'000 && walk.examined() >= examined;
    for (const DeltaRun& run : *runs) {
      is_sound &= run.begin >= examined && run.length > 0 && run.end() <= walk.examined();
      if (!is_sound) break;
      for (uint64_t block = run.begin; block < run.end(); block++) {
        is_sound &= kinds.emplace(block, run.kind).second;
      }
    }
    if (!is_sound) return Status::Reason("BROKEN_WALK", "walk", "", std::to_string(examined));
    examined = walk.examined();
  }
  return kinds;
}

}  // namespace blockdelta::test

#endif  // BLOCKDELTA_TEST_NATIVE_THIN_WALK_H_
