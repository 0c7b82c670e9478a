// A scan of maps in memory, and what it should find, worked out the slow and obvious way.
//
// The model takes every boundary of both maps and asks for each piece between two of them, by
// searching the whole lists, whether it is to be reported. Shares no code with the walk.
#ifndef BLOCKDELTA_TEST_NATIVE_MODEL_H_
#define BLOCKDELTA_TEST_NATIVE_MODEL_H_

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "native/scan/extent.h"
#include "native/scan/list_source.h"
#include "test/native/chunks.h"

namespace blockdelta::test {

using Map = std::vector<Extent>;

// 4 words an extent, as ListSource takes them.
inline std::vector<uint64_t> WordsOf(const Map& map) {
  std::vector<uint64_t> words;
  for (const Extent& extent : map) {
    words.insert(words.end(), {extent.logical, extent.physical, extent.length, extent.flags});
  }
  return words;
}

// The scan itself, of such lists. Without a base, that is null.
inline Call ScanOf(const Map& target, const Map* base, uint64_t size) {
  return [size, target_words = WordsOf(target), has_base = base != nullptr,
          base_words = WordsOf(base != nullptr ? *base : Map())](const FillLimits& limits,
                                                                 Span<uint8_t> buffer) {
    ListSource target_source({target_words.data(), target_words.size()}, size);
    ListSource base_source({base_words.data(), base_words.size()}, size);
    return FillFromMaps(&target_source, has_base ? &base_source : nullptr, size, limits, buffer);
  };
}

// '0' zeros, '?' opaque, '=' data. The masks are written out: they are part of what is tested.
inline char KindAt(const Map& map, uint64_t offset, uint64_t* address) {
  for (const Extent& extent : map) {
    if (offset < extent.logical || offset - extent.logical >= extent.length) continue;
    *address = extent.physical + (offset - extent.logical);
    if ((extent.flags & 0x78E) != 0) return '?';
    return (extent.flags & 0x800) != 0 ? '0' : '=';
  }
  return '0';
}

inline bool IsReported(const Map& target, const Map* base, uint64_t offset) {
  uint64_t target_address = 0;
  uint64_t base_address = 0;
  const char left = KindAt(target, offset, &target_address);
  const char right = base != nullptr ? KindAt(*base, offset, &base_address) : '0';
  if (left == '0' && right == '0') return false;
  return !(left == '=' && right == '=' && target_address == base_address);
}

// All reported ranges in [offset, size), neighbours merged.
inline std::vector<Range> ExpectedRanges(const Map& target, const Map* base, uint64_t size,
                                         uint64_t offset) {
  std::set<uint64_t> boundaries = {offset, size};
  for (const Map* map : {&target, base}) {
    if (map == nullptr) continue;
    for (const Extent& extent : *map) boundaries.insert({extent.logical, extent.end()});
  }
  std::vector<Range> ranges;
  for (auto boundary = boundaries.lower_bound(offset);
       boundary != boundaries.end() && *boundary < size; ++boundary) {
    if (!IsReported(target, base, *boundary)) continue;
    AddRange(&ranges, *boundary, *std::next(boundary) - *boundary);
  }
  return ranges;
}

}  // namespace blockdelta::test

#endif  // BLOCKDELTA_TEST_NATIVE_MODEL_H_
