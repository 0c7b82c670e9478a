// The extents of an open file on btrfs, read from its file extent items (BTRFS_IOC_TREE_SEARCH_V2).
//
// The search is about eight times as fast as FIEMAP, which looks up for each extent whether it is
// shared. It also identifies compressed extents: items of two files with the same disk address, the
// same compression and the same offset into the extent decompress to the same bytes. Needs
// CAP_SYS_ADMIN.
//
// FIEMAP locks the file; a search does not. A search reads leaf by leaf. If items are replaced in
// between (defragmentation does that, even to immutable files), the search can miss bytes that
// moved from one item to another, or whose new item is not there yet, and show a hole where there
// is none. So its result counts only if IsUnchangedSince() holds for a transaction that began
// before. Knows nothing of other files.
#ifndef BLOCKDELTA_NATIVE_SCAN_TREE_SEARCH_SOURCE_H_
#define BLOCKDELTA_NATIVE_SCAN_TREE_SEARCH_SOURCE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "native/scan/btrfs_item.h"
#include "native/scan/extent_source.h"

namespace blockdelta {

class TreeSearchSource : public ExtentSource {
 public:
  // Null if this process may not search trees, or the file system is not btrfs. `fd` must stay open
  // for the lifetime of the source; `path` is for failures. Omits extents beyond `size_bytes`.
  static Result<std::unique_ptr<TreeSearchSource>> Open(int fd, std::string path,
                                                        uint64_t size_bytes);

  void Seek(uint64_t offset) override;
  // Failures: SCAN_MAP_INVALID, errnos.
  Result<Span<const Extent>> Read(size_t wanted) override;

  // Visits the items of the whole file in order, as they are while it reads: they count for nothing
  // if they change meanwhile. Leaves the position undefined.
  Status ForEachItem(const std::function<Status(const BtrfsItem&)>& visit);

  // Whether no item of the file was written in transaction `generation` or a later one, and none is
  // being replaced. Reads only leaves that were written since. Also false if these hold too many
  // items to look at, as while the file is relocated. Relocation as such does not count: it changes
  // the addresses within items, but neither their number nor what they cover.
  Result<bool> IsUnchangedSince(uint64_t generation);

 private:
  struct Item {
    uint64_t key_offset;
    Span<const uint8_t> bytes;
  };

  TreeSearchSource(int fd, std::string path, uint64_t inode, uint64_t size_bytes);

  // Returns when the rewrites of extents that are under way have put all their items in the tree.
  Status AwaitRewrites() const;
  // Searches items with keys in [first, last] in leaves written since `min_generation`, and fills
  // items_ with at most `wanted` of them.
  Status Search(uint64_t first, uint64_t last, uint64_t min_generation, size_t wanted);
  Status ParseResults(uint32_t count);
  // Moves key_ to the last item that starts at or before position_, if there is one.
  Status FindCovering();
  Status TakeItems();
  Status Invalid(uint64_t offset) const;

  const int fd_;
  const std::string path_;
  const uint64_t inode_;
  const uint64_t size_bytes_;
  // struct btrfs_ioctl_search_args_v2 followed by the results, aligned for the former.
  std::vector<uint64_t> request_;
  // What the latest search returned; the bytes lie in request_.
  std::vector<Item> items_;
  std::vector<Extent> batch_;
  uint64_t position_ = 0;
  uint64_t previous_end_ = 0;
  // The next search starts here.
  uint64_t key_ = 0;
  bool is_positioned_ = false;
  bool at_end_ = false;
};

// Commits the running transaction of the btrfs of an open file, waits for the commit, and returns
// its generation. Unlike syncfs, it does not write back the dirty data of the whole file system.
Result<uint64_t> CommitTransaction(int fd, const std::string& path);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_SCAN_TREE_SEARCH_SOURCE_H_
