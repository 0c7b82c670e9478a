// Fuzzes the scan of extent lists: any maps, any limits, any buffers, any positions.
//
// A scan either refuses a list or gives exactly the ranges of the slow model, in messages that an
// independent reader understands.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "native/scan/fill.h"
#include "native/scan/list_source.h"
#include "test/fuzz/fuzz_input.h"
#include "test/native/model.h"
#include "test/native/wire.h"

namespace blockdelta {
namespace {

using test::Check;
using test::FuzzInput;
using test::Map;
using test::Range;

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

// Reads the messages of one call into `ranges`.
void TakeMessages(const Scene& scene, const FillOutcome& outcome, const uint8_t* buffer,
                  std::vector<Range>* ranges) {
  Check(outcome.bytes <= scene.buffer_bytes && outcome.entries <= scene.limits.max_entries);
  const auto messages = test::WireReader(buffer, outcome.bytes).Messages();
  Check(messages.has_value() && messages->size() == outcome.messages);
  for (const test::Message& message : *messages) {
    Check(message.type == 2 && message.capacity == scene.size);
    Check(message.ranges.size() <= scene.limits.max_entries_per_message);
    ranges->insert(ranges->end(), message.ranges.begin(), message.ranges.end());
  }
}

// Ascending, apart from each other, inside the domain.
void CheckOrder(const std::vector<Range>& ranges, uint64_t offset, uint64_t size) {
  uint64_t earliest = offset;
  for (const Range& range : ranges) {
    Check(range.size > 0 && range.offset >= earliest && range.offset < size &&
          range.size <= size - range.offset);
    earliest = range.offset + range.size + 1;
  }
}

void Run(Scene scene) {
  const std::vector<uint64_t> target_words = test::WordsOf(scene.target);
  const std::vector<uint64_t> base_words = test::WordsOf(scene.base);
  const std::unique_ptr<uint8_t[]> buffer(new uint8_t[scene.buffer_bytes]);
  const bool valid = IsValid(scene.size, &scene.target) && IsValid(scene.size, &scene.base);
  const uint64_t offset = scene.limits.offset;
  scene.limits.range_start = offset;
  std::vector<Range> ranges;
  for (bool done = false; !done;) {
    ListSource target({target_words.data(), target_words.size()}, scene.size);
    ListSource base({base_words.data(), base_words.size()}, scene.size);
    Result<FillOutcome> outcome =
        FillFromMaps(&target, scene.has_base ? &base : nullptr, scene.size, scene.limits,
                     Span<uint8_t>(buffer.get(), scene.buffer_bytes));
    if (!outcome.ok()) {
      Check(outcome.status().Is(kScanMapInvalid) && !valid);
      return;
    }
    TakeMessages(scene, *outcome, buffer.get(), &ranges);
    done = outcome->done;
    Check(done || outcome->entries > 0 || outcome->next_offset > scene.limits.offset);
    scene.limits.offset = outcome->next_offset;
    scene.limits.range_start = outcome->next_range_start;
  }
  CheckOrder(ranges, offset, scene.size);
  if (!valid) return;
  Check(ranges == test::ExpectedRanges(scene.target, scene.has_base ? &scene.base : nullptr,
                                       scene.size, offset));
}

}  // namespace
}  // namespace blockdelta

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  blockdelta::test::FuzzInput input(data, size);
  blockdelta::Run(blockdelta::ReadScene(&input));
  return 0;
}
