#include "native/thin/build_thin_list.h"

#include <memory>
#include <utility>
#include <vector>

#include "native/scan/change_list_writer.h"
#include "native/thin/file_source.h"

namespace blockdelta {
namespace {

constexpr uint64_t kEntriesPerStep = 32768;
constexpr size_t kBufferBytes = kEntriesPerStep * 24;
constexpr uint64_t kUnlimited = uint64_t{1} << 40;

// The two sides as the current superblock shows them.
struct Sides {
  ThinScanRequest scan;
  FileVersion target;
  FileVersion base;
};

// A root that the caller has found must still be the device's.
Status TakeRoot(const ThinDevice& found, const std::string& metadata, ThinDeviceRef* ref) {
  if (ref->root.value_or(found.root) != found.root) {
    return Status::Scan(kScanReplaced, metadata,
                        "thin device " + std::to_string(ref->id) +
                            " is not the one of which a change list was to be made");
  }
  ref->root = found.root;
  return Status();
}

Status CheckOrder(const BuildThinListRequest& request, const Sides& sides) {
  if (request.base_id.empty()) return Status();
  if (sides.base.generation < sides.target.generation &&
      request.base_bytes <= request.target_bytes) {
    return Status();
  }
  return Status::Scan(kScanUnsupported, request.metadata,
                      "no change list leads from snapshot " + request.base_id + " to " +
                          request.target_id + ": the second one is not younger, or is smaller");
}

Result<Sides> FindSides(const BuildThinListRequest& request) {
  Result<std::unique_ptr<BlockSource>> source = OpenBlockSource(request.metadata);
  RETURN_IF_ERROR(source);
  std::vector<uint64_t> ids = {request.target.id};
  if (request.base.has_value()) ids.push_back(request.base->id);
  Result<DeviceLookup> lookup = LookUpDevices(source->get(), 0, ids);
  RETURN_IF_ERROR(lookup);
  const std::vector<ThinDevice>& devices = lookup->devices;
  Sides sides;
  sides.scan.metadata = request.metadata;
  sides.scan.target = request.target;
  sides.scan.base = request.base;
  sides.scan.bookmark_path = request.bookmark_path;
  sides.target = {0, devices[0].creation_time, request.target_bytes, 0};
  Status status = TakeRoot(devices[0], request.metadata, &sides.scan.target);
  if (status.ok() && request.base.has_value()) {
    sides.base = {0, devices[1].creation_time, request.base_bytes, 0};
    status = TakeRoot(devices[1], request.metadata, &*sides.scan.base);
  } else if (status.ok() && request.bookmark_path.has_value()) {
    Result<std::unique_ptr<Bookmark>> bookmark = Bookmark::Open(*request.bookmark_path);
    RETURN_IF_ERROR(bookmark);
    sides.base = {0, (*bookmark)->info().creation_time, request.base_bytes, 0};
  }
  if (status.ok()) status = CheckOrder(request, sides);
  if (!status.ok()) return status;
  return sides;
}

bool IsRequestValid(const BuildThinListRequest& request, const BuildProgress& from) {
  const int bases =
      (request.base.has_value() ? 1 : 0) + (request.bookmark_path.has_value() ? 1 : 0);
  return bases == (request.base_id.empty() ? 0 : 1) &&
         request.target_bytes % change_list::kUnitBytes == 0 &&
         from.offset <= request.target_bytes && from.range_start <= from.offset;
}

// Adds the ranges that one call finds.
Result<FillOutcome> Scan(const BuildThinListRequest& request, const Sides& sides,
                         const BuildProgress& from, ChangeListWriter* list) {
  FillLimits limits;
  limits.offset = from.offset;
  limits.range_start = from.range_start;
  limits.max_entries = kEntriesPerStep;
  limits.max_entries_per_message = kEntriesPerStep;
  limits.max_extents = kUnlimited;
  limits.send_empty = false;
  std::vector<uint8_t> buffer(kBufferBytes);
  Result<FillOutcome> filled =
      FillFromThin(sides.scan, request.target_bytes, limits,
                   Span<uint8_t>(buffer.data(), buffer.size()), request.max_nodes);
  if (!filled.ok()) return filled;
  Status status = AddMessageEntries({buffer.data(), static_cast<size_t>(filled->bytes)}, list);
  if (status.ok()) status = list->Flush();
  if (!status.ok()) return status;
  return filled;
}

Status Publish(const BuildThinListRequest& request, const BuildProgress& progress,
               ChangeListWriter* list) {
  ListedSnapshot base;
  if (!request.base_id.empty()) base = {request.base_id, progress.base, ListedKind::kThinDevice};
  return list->Publish({request.target_id, progress.target, ListedKind::kThinDevice}, base,
                       request.names.final);
}

}  // namespace

Result<BuildOutcome> BuildThinList(const BuildThinListRequest& request,
                                   const std::optional<BuildProgress>& progress) {
  BuildProgress from = progress.value_or(BuildProgress());
  if (!IsRequestValid(request, from)) {
    return Status::Errno(EINVAL, "BuildThinList", request.metadata);
  }
  Result<Sides> sides = FindSides(request);
  RETURN_IF_ERROR(sides);
  if (progress.has_value() && !(from.target == sides->target && from.base == sides->base)) {
    return Status::Scan(kScanReplaced, request.metadata,
                        "a snapshot was replaced while its change list was made");
  }
  from.target = sides->target;
  from.base = sides->base;
  const ChangeListKind kind =
      request.base_id.empty() ? ChangeListKind::kAllocated : ChangeListKind::kDelta;
  Result<ChangeListWriter> list =
      progress.has_value() ? ChangeListWriter::Continue(request.names.temporary, kind, from.list)
                           : ChangeListWriter::Create(request.names.temporary, kind);
  RETURN_IF_ERROR(list);
  Result<FillOutcome> filled = Scan(request, *sides, from, &*list);
  RETURN_IF_ERROR(filled);
  from.offset = filled->next_offset;
  from.range_start = filled->next_range_start;
  from.list = list->progress();
  if (filled->done) {
    RETURN_IF_ERROR(Publish(request, from, &*list));
  }
  BuildOutcome outcome;
  outcome.progress = from;
  outcome.done = filled->done;
  outcome.extents = filled->extents;
  outcome.file_bytes = (from.list.pages + 1) * change_list::kPageBytes;
  return outcome;
}

}  // namespace blockdelta
