#include "native/scan/snapshot_map.h"

#include <algorithm>
#include <utility>

#include "native/base/posix.h"

namespace blockdelta {

Result<SnapshotMap> SnapshotMap::Open(const SnapshotFile& file, bool is_btrfs) {
  std::unique_ptr<TreeSearchSource> tree;
  if (is_btrfs) {
    Result<std::unique_ptr<TreeSearchSource>> opened =
        TreeSearchSource::Open(file.fd(), file.path(), file.size_bytes());
    RETURN_IF_ERROR(opened);
    tree = std::move(*opened);
  }
  return SnapshotMap(file, std::move(tree));
}

SnapshotMap::SnapshotMap(const SnapshotFile& file, std::unique_ptr<TreeSearchSource> tree)
    : fd_(file.fd()), path_(file.path()), size_bytes_(file.size_bytes()), tree_(std::move(tree)) {}

ExtentSource& SnapshotMap::source() {
  if (tree_ != nullptr) return *tree_;
  if (fiemap_ == nullptr) fiemap_ = std::make_unique<FiemapSource>(fd_, path_, size_bytes_);
  return *fiemap_;
}

Status MapFence::Raise() {
  // A second call means that the fence did not hold: something rewrites extents.
  if (is_raised_) UseFiemap();
  is_raised_ = true;
  if (SearchesTrees()) {
    RETURN_IF_ERROR(SettleTrees());
  }
  // Raised after SettleTrees(), which may start a new transaction.
  return addresses_->Raise();
}

Result<bool> MapFence::Holds() {
  Result<bool> unchanged = AreTreesUnchanged();
  if (!unchanged.ok() || !*unchanged) return unchanged;
  return addresses_->Holds();
}

Status MapFence::SettleTrees() {
  Result<uint64_t> generation = addresses_->Generation();
  RETURN_IF_ERROR(generation);
  since_ = *generation;
  Result<bool> unchanged = AreTreesUnchanged();
  RETURN_IF_ERROR(unchanged);
  if (*unchanged) return Status();
  // A snapshot just taken belongs to the transaction that is still running, and so would a change.
  // The two can be told apart after the commit of that transaction.
  Result<uint64_t> committed = Commit();
  if (committed.ok()) {
    since_ = *committed + 1;
    unchanged = AreTreesUnchanged();
    RETURN_IF_ERROR(unchanged);
    if (*unchanged) return Status();
  }
  UseFiemap();
  return Status();
}

Result<bool> MapFence::AreTreesUnchanged() {
  for (SnapshotMap* map : maps_) {
    if (map == nullptr || map->tree() == nullptr) continue;
    Result<bool> unchanged = map->tree()->IsUnchangedSince(since_);
    if (!unchanged.ok() || !*unchanged) return unchanged;
  }
  return true;
}

Result<uint64_t> MapFence::Commit() const {
  return CommitTransaction(addresses_->fd(), addresses_->path());
}

bool MapFence::SearchesTrees() const {
  return std::any_of(maps_.begin(), maps_.end(),
                     [](SnapshotMap* map) { return map != nullptr && map->tree() != nullptr; });
}

void MapFence::UseFiemap() {
  for (SnapshotMap* map : maps_) {
    if (map != nullptr) map->UseFiemap();
  }
}

}  // namespace blockdelta
