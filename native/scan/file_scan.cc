#include "native/scan/file_scan.h"

#include <utility>

#include "native/scan/address_fence.h"
#include "native/scan/extent_recorder.h"
#include "native/scan/snapshot_map.h"
#include "native/scan/windowed_scan.h"

namespace blockdelta {
namespace {

Result<FillOutcome> Fill(const SnapshotFile& target, const SnapshotFile* base,
                         AddressFence* addresses, const FillLimits& limits, Span<uint8_t> buffer,
                         const StoredMaps& maps) {
  const bool moves = addresses->extents_move();
  if (maps.any() && moves) {
    return Status::Scan(kScanUnsupported, target.path(), "the extents of ",
                        " may move, so no map of them is kept");
  }
  Result<SnapshotMap> target_map = SnapshotMap::Open(target, moves);
  RETURN_IF_ERROR(target_map);
  ExtentSource* target_source = &*target_map;
  std::optional<ExtentRecorder> recorder;
  if (maps.target != nullptr) target_source = &recorder.emplace(&*target_map, maps.target);
  std::optional<SnapshotMap> base_map;
  ExtentSource* base_source = maps.base;
  if (base != nullptr && base_source == nullptr) {
    Result<SnapshotMap> opened = SnapshotMap::Open(*base, moves);
    RETURN_IF_ERROR(opened);
    base_source = &base_map.emplace(std::move(*opened));
  }
  MapFence fence(addresses, &*target_map, base_map.has_value() ? &*base_map : nullptr);
  IntervalWalk walk(target_source, base_source, target.size_bytes());
  MessageWriter writer(buffer, target.size_bytes(), limits.max_entries_per_message);
  Filler filler(&walk, &writer, limits);
  WindowedScan scan(&fence, &walk, &filler);
  RETURN_IF_ERROR(scan.Run());
  FillOutcome outcome = filler.Finish();
  outcome.rescans = scan.rescans();
  return outcome;
}

Result<FillOutcome> FillAllocated(const SnapshotFile& target, const FillLimits& limits,
                                  Span<uint8_t> buffer, const StoredMaps& maps) {
  Result<AddressFence> fence = AddressFence::ForOne(target);
  RETURN_IF_ERROR(fence);
  return Fill(target, nullptr, &*fence, limits, buffer, maps);
}

Result<FillOutcome> FillDelta(const SnapshotFile& target, const SnapshotFile& base,
                              const FillLimits& limits, Span<uint8_t> buffer,
                              const StoredMaps& maps) {
  Result<AddressFence> fence = AddressFence::ForPair(target, base);
  RETURN_IF_ERROR(fence);
  Result<FillOutcome> outcome = Fill(target, &base, &*fence, limits, buffer, maps);
  if (!outcome.ok()) return outcome;
  for (const SnapshotFile* file : {&target, &base}) {
    RETURN_IF_ERROR(file->CheckUnchanged());
  }
  return outcome;
}

}  // namespace

Result<FillOutcome> FillFromFiles(SnapshotIdentity target, std::optional<SnapshotIdentity> base,
                                  const FillLimits& limits, Span<uint8_t> buffer,
                                  const StoredMaps& maps) {
  Result<SnapshotFile> target_file = SnapshotFile::Open(std::move(target));
  RETURN_IF_ERROR(target_file);
  if (!base.has_value()) return FillAllocated(*target_file, limits, buffer, maps);
  Result<SnapshotFile> base_file = SnapshotFile::Open(std::move(*base));
  RETURN_IF_ERROR(base_file);
  return FillDelta(*target_file, *base_file, limits, buffer, maps);
}

}  // namespace blockdelta
