#include "native/scan/exclusive_bytes.h"

#include <fcntl.h>

#include <algorithm>
#include <memory>
#include <unordered_set>

#include "native/base/posix.h"
#include "native/scan/fiemap_source.h"
#include "native/scan/tree_search_source.h"

namespace blockdelta {
namespace {

// File systems report what is preallocated after the end of a file; it counts too.
constexpr uint64_t kWholeMap = INT64_MAX;
// Unit of st_blocks.
constexpr uint64_t kStatBlockBytes = 512;

// What a file has allocated, less what others share. Unlike the map, the former also has the blocks
// that XFS keeps ready for copies on write, and those of the map itself.
Result<uint64_t> CountUnshared(uint64_t allocated_bytes, FiemapSource* map) {
  for (uint64_t bytes = allocated_bytes;;) {
    Result<Span<const Extent>> batch = map->Read(kMaxBatchExtents);
    RETURN_IF_ERROR(batch);
    if (batch->empty()) return bytes;
    for (const Extent& extent : *batch) {
      if ((extent.flags & FIEMAP_EXTENT_SHARED) == 0) continue;
      // A file that is written to meanwhile may share more than it had.
      bytes -= std::min(bytes, extent.length);
    }
  }
}

// Moves on through a map to the extents that hold ascending offsets.
class Sharing {
 public:
  explicit Sharing(FiemapSource* map) : map_(map) {}

  // Whether another file shares the byte at `offset`; false in a hole. REQUIRES: `offset` is not
  // before that of the last call.
  Result<bool> At(uint64_t offset) {
    while (!is_over_) {
      for (; next_ < batch_.size(); next_++) {
        const Extent& extent = batch_[next_];
        if (offset < extent.logical) return false;
        if (offset < extent.end()) return (extent.flags & FIEMAP_EXTENT_SHARED) != 0;
      }
      Result<Span<const Extent>> batch = map_->Read(kMaxBatchExtents);
      RETURN_IF_ERROR(batch);
      batch_ = *batch;
      next_ = 0;
      is_over_ = batch_.empty();
    }
    return false;
  }

 private:
  FiemapSource* map_;
  Span<const Extent> batch_;
  size_t next_ = 0;
  bool is_over_ = false;
};

Result<uint64_t> CountUnsharedItems(TreeSearchSource* items, FiemapSource* map) {
  Sharing sharing(map);
  std::unordered_set<uint64_t> counted;
  uint64_t bytes = 0;
  Status status = items->ForEachItem([&](const BtrfsItem& item) -> Status {
    if (item.disk_bytes == 0) return Status();
    Result<bool> is_shared = sharing.At(item.extent.logical);
    RETURN_IF_ERROR(is_shared);
    if (!*is_shared && counted.insert(item.disk_address).second) bytes += item.disk_bytes;
    return Status();
  });
  RETURN_IF_ERROR(status);
  return bytes;
}

}  // namespace

Result<uint64_t> CountExclusiveBytes(const std::string& path) {
  Result<UniqueFd> fd = OpenPath(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  RETURN_IF_ERROR(fd);
  FiemapSource map(fd->get(), path, kWholeMap);
  Result<std::unique_ptr<TreeSearchSource>> items =
      TreeSearchSource::Open(fd->get(), path, kWholeMap);
  RETURN_IF_ERROR(items);
  if (*items != nullptr) return CountUnsharedItems(items->get(), &map);
  Result<struct stat> state = StatFd(fd->get(), path);
  RETURN_IF_ERROR(state);
  return CountUnshared(static_cast<uint64_t>(state->st_blocks) * kStatBlockBytes, &map);
}

}  // namespace blockdelta
