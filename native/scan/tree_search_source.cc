#include "native/scan/tree_search_source.h"

#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "native/base/posix.h"

namespace blockdelta {
namespace {

using SearchArguments = struct btrfs_ioctl_search_args_v2;
using SearchHeader = struct btrfs_ioctl_search_header;
static_assert(sizeof(SearchArguments) == 112, "ABI of BTRFS_IOC_TREE_SEARCH_V2");
static_assert(sizeof(SearchHeader) == 32, "ABI of BTRFS_IOC_TREE_SEARCH_V2");

// Room for a full batch of ordinary items, and for any single item: none is larger than a node.
constexpr size_t kMaxNodeBytes = 64 << 10;
constexpr size_t kResultBytes =
    std::max(kMaxNodeBytes, kMaxBatchExtents*(sizeof(SearchHeader) + 53));
constexpr size_t kRequestWords = (sizeof(SearchArguments) + kResultBytes + 7) / sizeof(uint64_t);
// Distance before a position at which the search for the item that covers it starts.
constexpr uint64_t kFirstReach = 16 << 10;
constexpr uint64_t kReachGrowth = 16;

}  // namespace

Result<std::unique_ptr<TreeSearchSource>> TreeSearchSource::Open(int fd, std::string path,
                                                                 uint64_t size_bytes) {
  Result<struct stat> state = StatFd(fd, path);
  RETURN_IF_ERROR(state);
  std::unique_ptr<TreeSearchSource> source(
      new TreeSearchSource(fd, std::move(path), state->st_ino, size_bytes));
  Status status = source->Search(0, 0, 0, 1);
  if (status.IsErrno(EPERM) || status.IsErrno(ENOTTY) || status.IsErrno(EOPNOTSUPP)) {
    return std::unique_ptr<TreeSearchSource>();
  }
  if (!status.ok()) return status;
  return source;
}

TreeSearchSource::TreeSearchSource(int fd, std::string path, uint64_t inode, uint64_t size_bytes)
    : fd_(fd),
      path_(std::move(path)),
      inode_(inode),
      size_bytes_(size_bytes),
      request_(kRequestWords) {
  items_.reserve(kMaxBatchExtents);
  batch_.reserve(kMaxBatchExtents);
}

void TreeSearchSource::Seek(uint64_t offset) {
  position_ = offset;
  previous_end_ = 0;
  key_ = offset;
  is_positioned_ = offset == 0;
  at_end_ = offset >= size_bytes_;
}

Result<Span<const Extent>> TreeSearchSource::Read(size_t wanted) {
  batch_.clear();
  if (!at_end_ && !is_positioned_) {
    RETURN_IF_ERROR(FindCovering());
  }
  // A batch that holds nothing but the item before the position is not the end.
  while (batch_.empty() && !at_end_) {
    Status status = Search(key_, size_bytes_ - 1, 0, std::min(wanted, kMaxBatchExtents));
    if (status.ok()) status = TakeItems();
    if (!status.ok()) return status;
  }
  return Span<const Extent>(batch_.data(), batch_.size());
}

Status TreeSearchSource::ForEachItem(const std::function<Status(const BtrfsItem&)>& visit) {
  for (uint64_t first = 0;;) {
    RETURN_IF_ERROR(Search(first, UINT64_MAX, 0, kMaxBatchExtents));
    if (items_.empty()) return Status();
    for (const Item& item : items_) {
      const std::optional<BtrfsItem> parsed = ParseBtrfsItem(item.key_offset, item.bytes);
      if (!parsed.has_value()) return Invalid(item.key_offset);
      RETURN_IF_ERROR(visit(*parsed));
    }
    if (items_.back().key_offset == UINT64_MAX) return Status();
    first = items_.back().key_offset + 1;
  }
}

Result<bool> TreeSearchSource::IsUnchangedSince(uint64_t generation) {
  RETURN_IF_ERROR(AwaitRewrites());
  RETURN_IF_ERROR(Search(0, UINT64_MAX, generation, kMaxBatchExtents));
  if (items_.size() == kMaxBatchExtents) return false;
  for (const Item& item : items_) {
    const std::optional<BtrfsItem> parsed = ParseBtrfsItem(item.key_offset, item.bytes);
    if (!parsed.has_value()) return Invalid(item.key_offset);
    if (parsed->generation >= generation) return false;
  }
  return true;
}

Status TreeSearchSource::AwaitRewrites() const {
  // The kernel replaces items under the lock of the range of the file, which a search does not
  // take: it removes the old items, and may release the tree before it adds the new one. A search
  // in between sees a hole and no item of a new generation. SEEK_DATA takes the lock of the whole
  // file from its offset on, for a moment.
  if (lseek(fd_, 0, SEEK_DATA) != -1 || errno == ENXIO) return Status();
  return Status::Errno(errno, "lseek", path_);
}

Status TreeSearchSource::Search(uint64_t first, uint64_t last, uint64_t min_generation,
                                size_t wanted) {
  items_.clear();
  auto* arguments = reinterpret_cast<SearchArguments*>(request_.data());
  *arguments = {};
  arguments->key.tree_id = 0;  // The subvolume of fd_.
  arguments->key.min_objectid = arguments->key.max_objectid = inode_;
  arguments->key.min_type = arguments->key.max_type = BTRFS_EXTENT_DATA_KEY;
  arguments->key.min_offset = first;
  arguments->key.max_offset = last;
  arguments->key.min_transid = min_generation;
  arguments->key.max_transid = UINT64_MAX;
  arguments->key.nr_items = static_cast<uint32_t>(wanted);
  arguments->buf_size = kResultBytes;
  Status status =
      Ioctl(fd_, BTRFS_IOC_TREE_SEARCH_V2, arguments, "BTRFS_IOC_TREE_SEARCH_V2", path_);
  if (!status.ok()) return status;
  if (arguments->key.nr_items > wanted) return Invalid(first);
  return ParseResults(arguments->key.nr_items);
}

Status TreeSearchSource::ParseResults(uint32_t count) {
  const auto* arguments = reinterpret_cast<const SearchArguments*>(request_.data());
  const uint64_t first = arguments->key.min_offset;
  const auto* at = reinterpret_cast<const uint8_t*>(request_.data()) + sizeof(SearchArguments);
  size_t left = kResultBytes;
  for (uint32_t i = 0; i < count; i++) {
    SearchHeader header;
    if (left < sizeof header) return Invalid(first);
    std::memcpy(&header, at, sizeof header);
    at += sizeof header;
    left -= sizeof header;
    if (header.len > left) return Invalid(first);
    const uint64_t least = items_.empty() ? first : items_.back().key_offset + 1;
    // Item sizes and keys come from the kernel. The last comparison catches a wrap of `least`.
    if (header.objectid != inode_ || header.type != BTRFS_EXTENT_DATA_KEY ||
        header.offset < least || (least == 0 && !items_.empty())) {
      return Invalid(header.offset);
    }
    items_.push_back({header.offset, Span<const uint8_t>(at, header.len)});
    at += header.len;
    left -= header.len;
  }
  return Status();
}

Status TreeSearchSource::FindCovering() {
  // A search only goes forward. Reach back in growing steps until there is an item, then halve the
  // range that may hold a later one.
  uint64_t empty_from = position_ + 1;  // No item starts in [empty_from, position_].
  uint64_t low = 0;
  uint64_t reach = kFirstReach;
  while (empty_from > 0) {
    const uint64_t from = reach < position_ ? position_ - reach : 0;
    reach = reach > UINT64_MAX / kReachGrowth ? UINT64_MAX : reach * kReachGrowth;
    RETURN_IF_ERROR(Search(from, position_, 0, 1));
    if (!items_.empty()) {
      key_ = items_[0].key_offset;
      low = key_ + 1;
      break;
    }
    empty_from = from;
  }
  while (low < empty_from) {
    const uint64_t middle = low + (empty_from - low) / 2;
    RETURN_IF_ERROR(Search(middle, position_, 0, 1));
    if (items_.empty()) {
      empty_from = middle;
    } else {
      key_ = items_[0].key_offset;
      low = key_ + 1;
    }
  }
  is_positioned_ = true;
  return Status();
}

Status TreeSearchSource::TakeItems() {
  if (items_.empty()) at_end_ = true;
  for (const Item& item : items_) {
    const std::optional<BtrfsItem> parsed = ParseBtrfsItem(item.key_offset, item.bytes);
    if (!parsed.has_value()) return Invalid(item.key_offset);
    Extent extent = parsed->extent;
    const MapCheck check = CheckExtent(previous_end_, size_bytes_, &extent);
    if (check == MapCheck::kInvalid) return Invalid(item.key_offset);
    if (check == MapCheck::kBeyond) {
      at_end_ = true;
      return Status();
    }
    previous_end_ = extent.end();
    key_ = item.key_offset + 1;
    if (extent.end() > position_) batch_.push_back(extent);
  }
  if (previous_end_ >= size_bytes_) at_end_ = true;
  return Status();
}

Status TreeSearchSource::Invalid(uint64_t offset) const {
  return Status::Scan(kScanMapInvalid, path_, "the extent items of ",
                      " are not in order at offset " + std::to_string(offset));
}

Result<uint64_t> CommitTransaction(int fd, const std::string& path) {
  uint64_t generation = 0;
  RETURN_IF_ERROR(Ioctl(fd, BTRFS_IOC_START_SYNC, &generation, "BTRFS_IOC_START_SYNC", path));
  RETURN_IF_ERROR(Ioctl(fd, BTRFS_IOC_WAIT_SYNC, &generation, "BTRFS_IOC_WAIT_SYNC", path));
  return generation;
}

}  // namespace blockdelta
