// Fuzzes the scan of extent lists: any maps, any limits, any buffers, any positions.
//
// A scan either refuses a list or gives exactly the ranges of the slow model, in messages that an
// independent reader understands.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "test/fuzz/fuzz_input.h"
#include "test/native/model.h"

namespace blockdelta::test {
namespace {

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

void Run(FuzzInput* input) {
  const uint64_t size = input->Number() & INT64_MAX;
  const size_t buffer_bytes = 64 + input->Byte() * 4;
  const uint64_t head = input->Byte();
  const bool has_base = (head & 1) != 0;
  FillLimits limits;
  limits.send_empty = (head & 2) != 0;
  limits.max_entries = 1 + (head >> 2 & 7);
  limits.max_entries_per_message = 1 + (head >> 5 & 3);
  limits.max_extents = 1 + input->Number() % 1000;
  const uint64_t offset = std::min(input->Number(), size);
  Map target = ReadMap(input);
  Map base = ReadMap(input);
  const Call scan_of = ScanOf(target, has_base ? &base : nullptr, size);
  Result<Scan> scan = RunScan(scan_of, size, offset, buffer_bytes, [&] { return limits; });
  if (IsValid(size, &target) && IsValid(size, &base)) {
    Check(scan.ok());
    Check(scan->ranges == ExpectedRanges(target, has_base ? &base : nullptr, size, offset));
  } else {
    Check(scan.ok() || scan.status().Is(kScanMapInvalid));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  Run(&input);
  return 0;
}

}  // namespace blockdelta::test
