// The extent map of a snapshot file, read in the fastest way that proves enough, and its fence.
//
// On btrfs the map is read by a search of the tree, if this process may search; elsewhere by
// FIEMAP. A search counts only while nothing rewrites the file's items (tree_search_source.h), so
// the fence of a scan also checks that. After a fence has not held, the rest of the call uses
// FIEMAP, which the kernel runs with the file locked. A scan during defragmentation is then as slow
// and as sound as one without the search.
#ifndef BLOCKDELTA_NATIVE_SCAN_SNAPSHOT_MAP_H_
#define BLOCKDELTA_NATIVE_SCAN_SNAPSHOT_MAP_H_

#include <array>
#include <memory>

#include "native/scan/address_fence.h"
#include "native/scan/fiemap_source.h"
#include "native/scan/tree_search_source.h"

namespace blockdelta {

class SnapshotMap : public ExtentSource {
 public:
  // `file` must outlive this. With `is_btrfs`, searches the tree if that is permitted.
  static Result<SnapshotMap> Open(const SnapshotFile& file, bool is_btrfs);

  void Seek(uint64_t offset) override { source().Seek(offset); }
  Result<Span<const Extent>> Read(size_t wanted) override { return source().Read(wanted); }

  // Null if FIEMAP is used.
  TreeSearchSource* tree() { return tree_.get(); }
  // Switches to FIEMAP from the next Seek() on.
  void UseFiemap() { tree_.reset(); }

 private:
  SnapshotMap(const SnapshotFile& file, std::unique_ptr<TreeSearchSource> tree);

  ExtentSource& source();

  int fd_;
  std::string path_;
  uint64_t size_bytes_;
  std::unique_ptr<TreeSearchSource> tree_;
  std::unique_ptr<FiemapSource> fiemap_;
};

class MapFence : public Fence {
 public:
  // `base` may be null. All must outlive this.
  MapFence(AddressFence* addresses, SnapshotMap* target, SnapshotMap* base)
      : addresses_(addresses), maps_{target, base} {}

  Status Raise() override;
  Result<bool> Holds() override;
  bool extents_move() const override { return addresses_->extents_move(); }

 private:
  // Finds a transaction since which no file was changed, and switches to FIEMAP if there is none.
  Status SettleTrees();
  Result<bool> AreTreesUnchanged();
  // Commits the running transaction. Returns the last transaction that is committed.
  Result<uint64_t> Commit() const;
  bool SearchesTrees() const;
  void UseFiemap();

  AddressFence* const addresses_;
  const std::array<SnapshotMap*, 2> maps_;
  bool is_raised_ = false;
  // Transactions before this one cannot change the files any more.
  uint64_t since_ = 0;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_SCAN_SNAPSHOT_MAP_H_
