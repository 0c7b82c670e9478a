// Fuzzes the scan of extent lists: any maps, any limits, any buffers, any positions.
//
// A scan either refuses a list or gives exactly the ranges of the slow model, in messages that an
// independent reader understands.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "native/scan/fill.h"
#include "native/scan/list_source.h"
#include "test/fuzz/fuzz_input.h"
#include "test/fuzz/fuzz_scan.h"
#include "test/native/model.h"

namespace blockdelta {
namespace {

using test::Check;
using test::FuzzInput;
using test::Map;

constexpr size_t kMaxExtents = 48;

// Neighbouring numbers lie close together, as in maps; nothing is promised about them.
Map ReadMap(FuzzInput* input) {
  constexpr uint32_t kFlags[] = {0, 0x2000, 0x800, 0x8, 0x301, 0x4, 0x1, 0x802};
  Map map;
  uint64_t end = 0;
  const size_t count = input->Byte() % kMaxExtents;
  for (size_t i = 0; i < count && !input->empty(); i++) {
    const uint64_t head = input->Byte();
    const uint64_t logical = (head & 1) != 0 ? end : end + input->Number();
    const uint64_t length = (head & 2) != 0 ? input->Number() : 1 + input->Byte() % 16;
    const uint64_t physical = (head & 4) != 0 ? input->Number() : logical + 1000;
    map.push_back({logical, physical, length, kFlags[head >> 3 & 7]});
    end = logical + length;
  }
  return map;
}

// Whether ListSource has to take a map: see ExtentSource. What follows the first extent beyond the
// size counts for nothing; it is removed.
bool IsValid(uint64_t size, Map* map) {
  uint64_t previous_end = 0;
  for (size_t i = 0; i < map->size(); i++) {
    const Extent& extent = (*map)[i];
    if (extent.length == 0 || extent.logical + extent.length < extent.logical) return false;
    if (extent.logical < previous_end) return false;
    if (extent.logical >= size) {
      map->resize(i);
      break;
    }
    const uint64_t length = std::min(extent.length, size - extent.logical);
    if (extent.physical + length < extent.physical) return false;
    previous_end = extent.logical + length;
  }
  return true;
}

struct Scene {
  Map target;
  Map base;
  bool has_base;
  uint64_t size;
  size_t buffer_bytes;
  FillLimits limits;
};

Scene ReadScene(FuzzInput* input) {
  Scene scene;
  scene.size = input->Number() & INT64_MAX;
  scene.buffer_bytes = 64 + input->Byte() * 4;
  const uint64_t head = input->Byte();
  scene.has_base = (head & 1) != 0;
  scene.limits.send_empty = (head & 2) != 0;
  scene.limits.max_entries = 1 + (head >> 2 & 7);
  scene.limits.max_entries_per_message = 1 + (head >> 5 & 3);
  scene.limits.max_extents = 1 + input->Number() % 1000;
  scene.limits.offset = std::min(input->Number(), scene.size);
  scene.target = ReadMap(input);
  scene.base = ReadMap(input);
  return scene;
}

void Run(Scene scene) {
  const std::vector<uint64_t> target_words = test::WordsOf(scene.target);
  const std::vector<uint64_t> base_words = test::WordsOf(scene.base);
  const bool valid = IsValid(scene.size, &scene.target) && IsValid(scene.size, &scene.base);
  const auto fill = [&](const FillLimits& limits, Span<uint8_t> buffer) {
    ListSource target({target_words.data(), target_words.size()}, scene.size);
    ListSource base({base_words.data(), base_words.size()}, scene.size);
    return FillFromMaps(&target, scene.has_base ? &base : nullptr, scene.size, limits, buffer);
  };
  const auto ranges = test::ScanInCalls(fill, scene.size, scene.limits, scene.buffer_bytes);
  Check(ranges.ok() || (ranges.status().Is(kScanMapInvalid) && !valid));
  if (!valid) return;
  Check(*ranges == test::ExpectedRanges(scene.target, scene.has_base ? &scene.base : nullptr,
                                        scene.size, scene.limits.offset));
}

}  // namespace
}  // namespace blockdelta

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  blockdelta::test::FuzzInput input(data, size);
  blockdelta::Run(blockdelta::ReadScene(&input));
  return 0;
}
