#include "native/thin/thin_scan.h"

#include <utility>

#include "native/thin/file_source.h"
#include "native/thin/thin_format.h"

namespace blockdelta {
namespace {

// From this value on, the kernel lets the pool's time overflow into the data blocks of mappings.
constexpr uint32_t kLastTime = kMappingTimeMask;

Status Unsupported(const std::string& path, const std::string& what) {
  return Status::Scan(kScanUnsupported, path, what);
}

Status CheckTime(const std::string& path, uint32_t time) {
  if (time < kLastTime) return Status();
  return Unsupported(path, "the snapshot was created at time " + std::to_string(time) +
                               " of its pool, beyond which times of mappings are not reliable");
}

}  // namespace

Result<std::unique_ptr<ThinScan>> ThinScan::Open(const ThinScanRequest& request) {
  Result<std::unique_ptr<BlockSource>> source = OpenBlockSource(request.metadata);
  RETURN_IF_ERROR(source);
  std::unique_ptr<ThinScan> scan(new ThinScan(std::move(*source)));
  Status status = scan->FindDevices(request);
  if (status.ok() && request.bookmark_path.has_value()) {
    status = scan->OpenBookmark(*request.bookmark_path);
  }
  if (status.ok() && request.mark_young) {
    status = CheckTime(request.metadata, scan->target_.creation_time);
  }
  if (!status.ok()) return status;
  DeltaSides sides;
  sides.roots = {scan->base_root_, scan->target_root_};
  sides.bookmark = scan->bookmark_.get();
  if (scan->bookmark_ != nullptr) sides.young_from = scan->bookmark_->info().creation_time;
  if (request.mark_young) sides.young_from = scan->target_.creation_time;
  sides.include_same = request.include_same;
  scan->reader_.emplace(scan->source_.get(), scan->superblock_.data_blocks);
  scan->walk_.emplace(&*scan->reader_, sides);
  return scan;
}

Status ThinScan::FindDevices(const ThinScanRequest& request) {
  // Reads the current superblock in any case: a copy does not contain the number of data blocks.
  Result<Superblock> current = ReadSuperblock(source_.get(), 0);
  RETURN_IF_ERROR(current);
  superblock_ = *current;
  std::vector<uint64_t> ids = {request.target.id};
  if (request.base.has_value()) ids.push_back(request.base->id);
  const bool has_roots = request.target.root.has_value() &&
                         (!request.base.has_value() || request.base->root.has_value());
  std::vector<ThinDevice> found(ids.size());
  if (!has_roots || request.mark_young || request.bookmark_path.has_value()) {
    Result<DeviceLookup> lookup = LookUpDevices(source_.get(), request.superblock, ids);
    RETURN_IF_ERROR(lookup);
    found = std::move(lookup->devices);
  }
  if (!has_roots) lookup_superblock_ = request.superblock;
  target_ = found[0];
  target_root_ = RootOf(request.target, found[0]);
  if (request.base.has_value()) base_root_ = RootOf(*request.base, found[1]);
  return Status();
}

uint64_t ThinScan::RootOf(const ThinDeviceRef& ref, const ThinDevice& found) {
  const uint64_t root = ref.root.value_or(found.root);
  if (ref.root.has_value() || lookup_superblock_ == 0) refs_.push_back({ref.id, root});
  return root;
}

// The rule for deleted bases is in docs/engineering/retained-bases.md. The caller knows whether the
// target descends from the base.
Status ThinScan::OpenBookmark(const std::string& path) {
  Result<std::unique_ptr<Bookmark>> bookmark = Bookmark::Open(path);
  RETURN_IF_ERROR(bookmark);
  bookmark_ = std::move(*bookmark);
  const BookmarkInfo& info = bookmark_->info();
  if (info.data_block_bytes != data_block_bytes()) {
    return Unsupported(path, "the bookmark is of a pool with data blocks of " +
                                 std::to_string(info.data_block_bytes) + " bytes, those of " +
                                 source_->path() + " have " + std::to_string(data_block_bytes()));
  }
  if (target_.creation_time <= info.creation_time) {
    return Unsupported(path, "the base was created at time " + std::to_string(info.creation_time) +
                                 " of its pool and thin device " + std::to_string(target_.id) +
                                 " at time " + std::to_string(target_.creation_time) +
                                 ": a target must be younger than its base");
  }
  return CheckTime(source_->path(), target_.creation_time);
}

Status ThinScan::Confirm(Status status) {
  if (!status.ok() && !status.Is(kThinMetadataInvalid)) return status;
  Status confirmed = ConfirmDevices(source_.get(), lookup_superblock_, refs_);
  if (confirmed.Is(kScanReplaced) || status.ok()) return confirmed;
  return status;
}

}  // namespace blockdelta
