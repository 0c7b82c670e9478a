#include "native/scan/file_scan.h"

#include <utility>

#include "native/scan/address_fence.h"
#include "native/scan/fiemap_source.h"
#include "native/scan/windowed_scan.h"

namespace blockdelta {
namespace {

Result<FillOutcome> Fill(const SnapshotFile& target, const SnapshotFile* base, Fence* fence,
                         const FillLimits& limits, Span<uint8_t> buffer) {
  FiemapSource target_map(target.fd(), target.path(), target.size_bytes());
  std::optional<FiemapSource> base_map;
  if (base != nullptr) base_map.emplace(base->fd(), base->path(), base->size_bytes());
  IntervalWalk walk(&target_map, base_map.has_value() ? &*base_map : nullptr, target.size_bytes());
  MessageWriter writer(buffer, target.size_bytes(), limits.max_entries_per_message);
  Filler filler(&walk, &writer, limits);
  WindowedScan scan(fence, &walk, &filler);
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
