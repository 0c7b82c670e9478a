#include "native/device/pre_clone.h"

#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>
#include <utility>

#include "native/scan/fiemap_source.h"
#include "native/scan/interval_walk.h"

namespace blockdelta {
namespace {

// A FICLONE of fewer extents stops writers for less than the rest of a snapshot does.
constexpr uint32_t kMinExtents = 1000;
// Extents per piece: about 3 ms. One call costs as much as ten extents.
constexpr size_t kPieceExtents = 128;
// Ranges that may be left for the freeze: about 15 ms.
constexpr size_t kFewRanges = 256;
constexpr unsigned kMaxRefreshes = 4;
// 24 MiB. The map of a larger clone is read again under the freeze.
constexpr size_t kMaxHeldExtents = 1 << 20;
constexpr uint64_t kSector = 512;

size_t WholeBatch() { return kMaxBatchExtents; }

// An extent map in memory.
class HeldMap : public ExtentSource {
 public:
  // Null if the map is too large.
  static Result<std::unique_ptr<HeldMap>> Read(ExtentSource* source) {
    std::unique_ptr<HeldMap> map(new HeldMap());
    source->Seek(0);
    for (;;) {
      Result<Span<const Extent>> batch = source->Read(kMaxBatchExtents);
      RETURN_IF_ERROR(batch);
      if (batch->empty()) return map;
      for (const Extent& extent : *batch) {
        if (!map->Append(extent)) return std::unique_ptr<HeldMap>();
      }
    }
  }

  void Seek(uint64_t offset) override {
    const auto ends_after = [](uint64_t at, const Packed& packed) {
      return at < packed.logical + packed.sectors * kSector;
    };
    const auto first = std::upper_bound(extents_.begin(), extents_.end(), offset, ends_after);
    next_ = static_cast<size_t>(first - extents_.begin());
  }

  Result<Span<const Extent>> Read(size_t wanted) override {
    batch_.clear();
    const size_t last = std::min(extents_.size(), next_ + std::min(wanted, kMaxBatchExtents));
    for (; next_ < last; next_++) {
      const Packed& packed = extents_[next_];
      batch_.push_back({packed.logical, packed.physical, packed.sectors * kSector, packed.flags});
    }
    return Span<const Extent>(batch_.data(), batch_.size());
  }

 private:
  struct Packed {
    uint64_t logical;
    uint64_t physical;
    uint32_t sectors;
    uint32_t flags;
  };

  HeldMap() = default;

  bool Append(const Extent& extent) {
    const uint64_t sectors = extent.length / kSector;
    const bool fits = extents_.size() < kMaxHeldExtents && extent.length % kSector == 0 &&
                      sectors <= UINT32_MAX && extent.origin == 0;
    if (fits) {
      extents_.push_back(
          {extent.logical, extent.physical, static_cast<uint32_t>(sectors), extent.flags});
    }
    return fits;
  }

  std::vector<Packed> extents_;
  std::vector<Extent> batch_;
  size_t next_ = 0;
};

Result<bool> IsXfs(int fd, const std::string& path) {
  struct statfs state;
  if (RetryInterrupted([&] { return fstatfs(fd, &state); }) == -1) {
    return Status::Errno(errno, "fstatfs", path);
  }
  return static_cast<uint32_t>(state.f_type) == XFS_SUPER_MAGIC;
}

Result<struct fsxattr> AttributesOf(int fd, const std::string& path) {
  struct fsxattr attributes = {};
  RETURN_IF_ERROR(Ioctl(fd, FS_IOC_FSGETXATTR, &attributes, "FS_IOC_FSGETXATTR", path));
  return attributes;
}

}  // namespace

Result<uint64_t> CountExtents(const std::string& path) {
  Result<UniqueFd> fd = OpenPath(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  RETURN_IF_ERROR(fd);
  Result<bool> is_xfs = IsXfs(fd->get(), path);
  RETURN_IF_ERROR(is_xfs);
  if (*is_xfs) {
    Result<struct fsxattr> attributes = AttributesOf(fd->get(), path);
    RETURN_IF_ERROR(attributes);
    return uint64_t{attributes->fsx_nextents};
  }
  // Without room for extents, the kernel counts them.
  struct fiemap map = {};
  map.fm_length = FIEMAP_MAX_OFFSET;
  RETURN_IF_ERROR(Ioctl(fd->get(), FS_IOC_FIEMAP, &map, "FS_IOC_FIEMAP", path));
  return uint64_t{map.fm_mapped_extents};
}

PreClone::~PreClone() { static_cast<void>(Release()); }

void PreClone::Prepare() {
  if (TryPrepare().ok()) return;
  held_map_.reset();
  is_cloned_ = false;
}

Status PreClone::TryPrepare() {
  RETURN_IF_ERROR(Release());
  Result<struct stat> source = StatFd(source_fd_, source_path_);
  RETURN_IF_ERROR(source);
  if (!is_cloned_) {
    Result<bool> is_worthwhile = IsWorthwhile();
    RETURN_IF_ERROR(is_worthwhile);
    if (!*is_worthwhile) return Status();
    size_bytes_ = static_cast<uint64_t>(source->st_size);
    RETURN_IF_ERROR(CloneInPieces());
    is_cloned_ = true;
  }
  RETURN_IF_ERROR(Refresh());
  return Hold();
}

Result<bool> PreClone::IsWorthwhile() const {
  Result<bool> is_xfs = IsXfs(source_fd_, source_path_);
  if (!is_xfs.ok() || !*is_xfs) return is_xfs;
  Result<struct fsxattr> attributes = AttributesOf(source_fd_, source_path_);
  RETURN_IF_ERROR(attributes);
  return (attributes->fsx_xflags & FS_XFLAG_REALTIME) == 0 &&
         attributes->fsx_nextents >= kMinExtents;
}

Status PreClone::CloneInPieces() {
  RETURN_IF_ERROR(TruncateFd(file_->fd(), size_bytes_, file_->temporary()));
  FiemapSource map(source_fd_, source_path_, size_bytes_);
  for (uint64_t offset = 0; offset < size_bytes_;) {
    // The file is written to meanwhile, so each piece is looked up anew.
    map.Seek(offset);
    Result<Span<const Extent>> batch = map.Read(kPieceExtents);
    RETURN_IF_ERROR(batch);
    const uint64_t end = batch->empty() ? size_bytes_ : (*batch)[batch->size() - 1].end();
    RETURN_IF_ERROR(CloneRange({offset, end}));
    offset = end;
  }
  return Status();
}

Status PreClone::Refresh() {
  size_t least = SIZE_MAX;
  for (unsigned round = 0; round < kMaxRefreshes; round++) {
    FiemapSource map(file_->fd(), file_->temporary(), size_bytes_);
    Result<std::vector<Range>> ranges = Differences(&map);
    RETURN_IF_ERROR(ranges);
    RETURN_IF_ERROR(CloneRanges(*ranges));
    // Every round leaves the ranges that are written to while it reads the maps.
    if (ranges->size() <= kFewRanges || ranges->size() > least / 2) break;
    least = ranges->size();
  }
  return Status();
}

Status PreClone::Hold() {
  RETURN_IF_ERROR(SetImmutableFd(file_->fd(), true, file_->temporary()));
  is_immutable_ = true;
  Result<struct stat> state = StatFd(file_->fd(), file_->temporary());
  RETURN_IF_ERROR(state);
  held_since_ = state->st_ctim;
  auto map = std::make_unique<FiemapSource>(file_->fd(), file_->temporary(), size_bytes_);
  Result<std::unique_ptr<HeldMap>> held = HeldMap::Read(map.get());
  RETURN_IF_ERROR(held);
  held_map_ = std::move(map);
  if (*held != nullptr) held_map_ = std::move(*held);
  return Status();
}

Result<bool> PreClone::IsHeld() const {
  Result<struct stat> state = StatFd(file_->fd(), file_->temporary());
  RETURN_IF_ERROR(state);
  return state->st_ctim.tv_sec == held_since_.tv_sec &&
         state->st_ctim.tv_nsec == held_since_.tv_nsec;
}

Status PreClone::Complete() {
  if (held_map_ == nullptr) return CloneWhole();
  Result<struct stat> source = StatFd(source_fd_, source_path_);
  RETURN_IF_ERROR(source);
  if (static_cast<uint64_t>(source->st_size) != size_bytes_) return CloneWhole();
  Result<std::vector<Range>> ranges = Differences(held_map_.get());
  RETURN_IF_ERROR(ranges);
  Result<bool> is_held = IsHeld();
  RETURN_IF_ERROR(is_held);
  if (!*is_held) return CloneWhole();
  // From here on, whatever moves the extents of the clone keeps their bytes.
  Status status = Release();
  if (status.ok()) status = CloneRanges(*ranges);
  completed_ranges_ = ranges->size();
  return status;
}

Result<std::vector<PreClone::Range>> PreClone::Differences(ExtentSource* clone_map) const {
  FiemapSource source_map(source_fd_, source_path_, size_bytes_);
  IntervalWalk walk(&source_map, clone_map, size_bytes_);
  std::vector<Range> ranges;
  Status status = walk.Seek(0, WholeBatch);
  for (uint64_t offset = 0; status.ok() && offset < size_bytes_;) {
    const Interval interval = walk.Current();
    if (interval.reported && !ranges.empty() && ranges.back().end == offset) {
      ranges.back().end = interval.end;
    } else if (interval.reported) {
      ranges.push_back({offset, interval.end});
    }
    offset = interval.end;
    if (offset < size_bytes_) status = walk.Advance(offset, WholeBatch);
  }
  if (!status.ok()) return status;
  return ranges;
}

Status PreClone::CloneRange(const Range& range) const {
  struct file_clone_range request = {};
  request.src_fd = source_fd_;
  request.src_offset = request.dest_offset = range.offset;
  // 0 means up to the end of the file, which need not be the end of a block.
  request.src_length = range.end == size_bytes_ ? 0 : range.end - range.offset;
  return Ioctl(file_->fd(), FICLONERANGE, &request, "FICLONERANGE", file_->temporary());
}

Status PreClone::CloneRanges(const std::vector<Range>& ranges) const {
  for (const Range& range : ranges) {
    RETURN_IF_ERROR(CloneRange(range));
  }
  return Status();
}

Status PreClone::CloneWhole() {
  Status status = Release();
  if (status.ok()) status = TruncateFd(file_->fd(), 0, file_->temporary());
  if (status.ok()) status = CloneInto(source_fd_, file_->fd(), file_->temporary());
  completed_ranges_ = 1;
  return status;
}

Status PreClone::Release() {
  held_map_.reset();
  if (!is_immutable_) return Status();
  Status status = SetImmutableFd(file_->fd(), false, file_->temporary());
  is_immutable_ = !status.ok();
  return status;
}

}  // namespace blockdelta
