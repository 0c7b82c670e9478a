#include "native/scan/file_scan.h"

#include <utility>

#include "native/scan/address_fence.h"
#include "native/scan/snapshot_map.h"
#include "native/scan/windowed_scan.h"

namespace blockdelta {
namespace {

Result<FillOutcome> Fill(const SnapshotFile& target, const SnapshotFile* base,
                         AddressFence* addresses, const FillLimits& limits, Span<uint8_t> buffer) {
  Result<SnapshotMap> target_map = SnapshotMap::Open(target, addresses->extents_move());
  if (!target_map.ok()) return target_map.TakeStatus();
  std::optional<SnapshotMap> base_map;
  if (base != nullptr) {
    Result<SnapshotMap> opened = SnapshotMap::Open(*base, addresses->extents_move());
    if (!opened.ok()) return opened.TakeStatus();
    base_map.emplace(std::move(*opened));
  }
  SnapshotMap* const base_or_none = base_map.has_value() ? &*base_map : nullptr;
  MapFence fence(addresses, &*target_map, base_or_none);
  IntervalWalk walk(&*target_map, base_or_none, target.size_bytes());
  MessageWriter writer(buffer, target.size_bytes(), limits.max_entries_per_message);
  Filler filler(&walk, &writer, limits);
  WindowedScan scan(&fence, &walk, &filler);
  Status status = scan.Run();
  if (!status.ok()) return status;
  FillOutcome outcome = filler.Finish();
  outcome.rescans = scan.rescans();
  return outcome;
}

Result<FillOutcome> FillAllocated(const SnapshotFile& target, const FillLimits& limits,
                                  Span<uint8_t> buffer) {
  Result<AddressFence> fence = AddressFence::ForOne(target);
  if (!fence.ok()) return fence.TakeStatus();
  return Fill(target, nullptr, &*fence, limits, buffer);
}

Result<FillOutcome> FillDelta(const SnapshotFile& target, const SnapshotFile& base,
                              const FillLimits& limits, Span<uint8_t> buffer) {
  Result<AddressFence> fence = AddressFence::ForPair(target, base);
  if (!fence.ok()) return fence.TakeStatus();
  Result<FillOutcome> outcome = Fill(target, &base, &*fence, limits, buffer);
  if (!outcome.ok()) return outcome;
  for (const SnapshotFile* file : {&target, &base}) {
    Status status = file->CheckUnchanged();
    if (!status.ok()) return status;
  }
  return outcome;
}

}  // namespace

Result<FillOutcome> FillFromFiles(SnapshotIdentity target, std::optional<SnapshotIdentity> base,
                                  const FillLimits& limits, Span<uint8_t> buffer) {
  Result<SnapshotFile> target_file = SnapshotFile::Open(std::move(target));
  if (!target_file.ok()) return target_file.TakeStatus();
  if (!base.has_value()) return FillAllocated(*target_file, limits, buffer);
  Result<SnapshotFile> base_file = SnapshotFile::Open(std::move(*base));
  if (!base_file.ok()) return base_file.TakeStatus();
  return FillDelta(*target_file, *base_file, limits, buffer);
}

}  // namespace blockdelta
