#include "native/scan/build_change_list.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "native/scan/change_list_file.h"
#include "native/scan/file_scan.h"

namespace blockdelta {
namespace {

constexpr uint64_t kEntriesPerScan = 32768;
constexpr size_t kBufferBytes = kEntriesPerScan * 24;

// The version of the file now. Fails unless the file is frozen.
Result<FileVersion> FrozenVersion(const SnapshotToList& snapshot) {
  Result<SnapshotFile> file = SnapshotFile::Open(snapshot.file);
  RETURN_IF_ERROR(file);
  RETURN_IF_ERROR(file->CheckFrozen());
  return VersionOf(file->fd(), file->path());
}

Status CheckSame(const SnapshotToList& snapshot, const FileVersion& expected) {
  Result<FileVersion> now = FrozenVersion(snapshot);
  RETURN_IF_ERROR(now);
  if (*now == expected) return Status();
  return Status::Scan(kScanMutable, snapshot.file.path, "",
                      " was changed while its change list was made");
}

Result<ChangeListWriter> OpenWriter(const std::string& path, ChangeListKind kind,
                                    const ChangeListProgress* progress) {
  if (progress == nullptr) return ChangeListWriter::Create(path, kind);
  return ChangeListWriter::Continue(path, kind, *progress);
}

// Adds the parts of the extents in [start, end). Bytes that read as zeros have no entry.
Status AddExtents(const std::vector<Extent>& extents, uint64_t start, uint64_t end,
                  ChangeListWriter* map) {
  for (const Extent& extent : extents) {
    const ExtentClass kind = Classify(extent.flags);
    const uint64_t from = std::max(extent.logical, start);
    const uint64_t to = std::min(extent.end(), end);
    if (kind == ExtentClass::kZero || from >= to) continue;
    const bool is_opaque = kind == ExtentClass::kOpaque;
    const uint64_t physical = is_opaque ? 0 : extent.physical + (from - extent.logical);
    RETURN_IF_ERROR(map->Add({from, to, physical, is_opaque}));
  }
  return Status();
}

// One step, with the files that are open during it.
class Step {
 public:
  Step(const BuildChangeListRequest& request, BuildProgress progress)
      : request_(request), progress_(progress), buffer_(kBufferBytes) {}

  Status Open(bool is_first) {
    const ChangeListKind kind =
        request_.base.has_value() ? ChangeListKind::kDelta : ChangeListKind::kAllocated;
    Result<ChangeListWriter> list =
        OpenWriter(request_.names.temporary, kind, is_first ? nullptr : &progress_.list);
    RETURN_IF_ERROR(list);
    list_.emplace(std::move(*list));
    if (request_.map_names.has_value()) {
      Result<ChangeListWriter> map = OpenWriter(request_.map_names->temporary, ChangeListKind::kMap,
                                                is_first ? nullptr : &progress_.map);
      RETURN_IF_ERROR(map);
      map_.emplace(std::move(*map));
    }
    return request_.base_map.has_value() ? OpenBaseMap() : Status();
  }

  Result<BuildOutcome> Run() {
    BuildOutcome outcome;
    bool is_scanned = false;
    while (!is_scanned && outcome.extents < request_.max_extents) {
      Result<bool> scanned = Scan(&outcome);
      RETURN_IF_ERROR(scanned);
      is_scanned = *scanned;
    }
    Status status = Flush();
    if (status.ok()) status = CheckSame(request_.target, progress_.target);
    if (status.ok() && request_.base.has_value()) {
      status = CheckSame(*request_.base, progress_.base);
    }
    if (status.ok() && is_scanned) status = Publish();
    if (!status.ok()) return status;
    outcome.done = is_scanned;
    outcome.progress = progress_;
    outcome.file_bytes = (progress_.list.pages + 1) * change_list::kPageBytes;
    if (map_.has_value()) {
      outcome.file_bytes += (progress_.map.pages + 1) * change_list::kPageBytes;
    }
    return outcome;
  }

 private:
  Status OpenBaseMap() {
    Result<ChangeListFile> map = ChangeListFile::Open(*request_.base_map);
    if (map.status().IsErrno(ENOENT)) {
      return change_list::Invalid(*request_.base_map, "it is gone");
    }
    RETURN_IF_ERROR(map);
    if (!request_.base.has_value() || map->head().kind != ChangeListKind::kMap ||
        !(map->head().target == ListedSnapshot{request_.base->id, progress_.base})) {
      return change_list::Invalid(map->path(), "it is not the map of the base");
    }
    base_map_.emplace(std::move(*map));
    base_source_.emplace(&*base_map_);
    return Status();
  }

  // Scans as much as the buffer holds. True at the end of the target.
  Result<bool> Scan(BuildOutcome* outcome) {
    FillLimits limits;
    limits.offset = progress_.offset;
    limits.range_start = progress_.range_start;
    limits.max_entries = kEntriesPerScan;
    limits.max_entries_per_message = kEntriesPerScan;
    limits.max_extents = request_.max_extents - outcome->extents;
    limits.send_empty = false;
    StoredMaps maps;
    std::vector<Extent> read;
    if (map_.has_value()) maps.target = &read;
    if (base_source_.has_value()) maps.base = &*base_source_;
    std::optional<SnapshotIdentity> base;
    if (request_.base.has_value()) base = request_.base->file;
    Result<FillOutcome> filled = FillFromFiles(request_.target.file, std::move(base), limits,
                                               Span<uint8_t>(buffer_.data(), buffer_.size()), maps);
    RETURN_IF_ERROR(filled);
    Status status = AddMessageEntries(
        Span<const uint8_t>(buffer_.data(), static_cast<size_t>(filled->bytes)), &*list_);
    if (status.ok() && map_.has_value()) {
      status = AddExtents(read, progress_.offset, filled->next_offset, &*map_);
    }
    if (!status.ok()) return status;
    progress_.offset = filled->next_offset;
    progress_.range_start = filled->next_range_start;
    outcome->extents += std::max<uint64_t>(filled->extents, 1);
    outcome->rescans += filled->rescans;
    return filled->done;
  }

  Status Flush() {
    Status status = list_->Flush();
    if (status.ok() && map_.has_value()) status = map_->Flush();
    progress_.list = list_->progress();
    if (map_.has_value()) progress_.map = map_->progress();
    return status;
  }

  // The map comes first: a list can be made again at any time, a map only while the base has one.
  Status Publish() {
    const ListedSnapshot target = {request_.target.id, progress_.target};
    if (map_.has_value()) {
      RETURN_IF_ERROR(map_->Publish(target, {}, request_.map_names->final));
    }
    ListedSnapshot base;
    if (request_.base.has_value()) base = {request_.base->id, progress_.base};
    return list_->Publish(target, base, request_.names.final);
  }

  const BuildChangeListRequest& request_;
  BuildProgress progress_;
  std::vector<uint8_t> buffer_;
  std::optional<ChangeListWriter> list_;
  std::optional<ChangeListWriter> map_;
  std::optional<ChangeListFile> base_map_;
  std::optional<StoredMapSource> base_source_;
};

Result<BuildProgress> FirstProgress(const BuildChangeListRequest& request) {
  if (request.target.file.size_bytes % change_list::kUnitBytes != 0) {
    return Status::Errno(EINVAL, "BuildChangeList", request.target.file.path);
  }
  BuildProgress progress;
  Result<FileVersion> target = FrozenVersion(request.target);
  RETURN_IF_ERROR(target);
  progress.target = *target;
  if (!request.base.has_value()) return progress;
  Result<FileVersion> base = FrozenVersion(*request.base);
  RETURN_IF_ERROR(base);
  progress.base = *base;
  return progress;
}

}  // namespace

Result<BuildOutcome> BuildChangeList(const BuildChangeListRequest& request,
                                     const std::optional<BuildProgress>& progress) {
  Result<BuildProgress> from =
      progress.has_value() ? Result<BuildProgress>(*progress) : FirstProgress(request);
  RETURN_IF_ERROR(from);
  if (from->offset > request.target.file.size_bytes || from->range_start > from->offset) {
    return Status::Errno(EINVAL, "BuildChangeList", request.target.file.path);
  }
  Step step(request, *from);
  RETURN_IF_ERROR(step.Open(!progress.has_value()));
  return step.Run();
}

}  // namespace blockdelta
