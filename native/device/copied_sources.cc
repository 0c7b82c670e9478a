#include "native/device/copied_sources.h"

#include <linux/fs.h>

#include <algorithm>

#include "native/scan/tree_search_source.h"

namespace blockdelta {
namespace {

// A copy commits a transaction, which takes at least as long as a FICLONE of this many extents.
constexpr size_t kMinExtents = 10'000;
// Extents that are cloned in one transaction; its commit takes about 0.1 s.
constexpr size_t kPieceExtents = 16'384;

Result<bool> HasManyExtents(const SourceVolume& source) {
  Result<std::unique_ptr<TreeSearchSource>> map =
      TreeSearchSource::Open(source.fd(), source.path(), source.size_bytes());
  RETURN_IF_ERROR(map);
  if (*map == nullptr) return false;
  (*map)->Seek(0);
  for (size_t found = 0; found < kMinExtents;) {
    Result<Span<const Extent>> batch = (*map)->Read(kMaxBatchExtents);
    RETURN_IF_ERROR(batch);
    if (batch->empty()) return false;
    found += batch->size();
  }
  return true;
}

// Reads at least `wanted` more extents, or up to the end of the file. Returns the end of the last
// extent; `size_bytes` at the end of the file.
Result<uint64_t> EndOfPiece(ExtentSource* map, size_t wanted, uint64_t size_bytes) {
  uint64_t end = size_bytes;
  for (size_t found = 0; found < wanted;) {
    Result<Span<const Extent>> batch = map->Read(kMaxBatchExtents);
    RETURN_IF_ERROR(batch);
    if (batch->empty()) return size_bytes;
    found += batch->size();
    end = (*batch)[batch->size() - 1].end();
  }
  return end;
}

// Clones a file that nobody writes to into an empty file, durably.
Status CloneInTransactions(int source_fd, const NewFile& file, uint64_t size_bytes) {
  Result<std::unique_ptr<TreeSearchSource>> map =
      TreeSearchSource::Open(source_fd, file.temporary(), size_bytes);
  RETURN_IF_ERROR(map);
  if (*map == nullptr) return CloneInto(source_fd, file.fd(), file.temporary());
  Status status = TruncateFd(file.fd(), size_bytes, file.temporary());
  (*map)->Seek(0);
  for (uint64_t offset = 0; status.ok() && offset < size_bytes;) {
    Result<uint64_t> end = EndOfPiece(map->get(), kPieceExtents, size_bytes);
    RETURN_IF_ERROR(end);
    struct file_clone_range piece = {};
    piece.src_fd = source_fd;
    piece.src_offset = piece.dest_offset = offset;
    // 0 means up to the end of the file, which need not be the end of a block.
    piece.src_length = *end == size_bytes ? 0 : *end - offset;
    status = Ioctl(file.fd(), FICLONERANGE, &piece, "FICLONERANGE", file.temporary());
    if (status.ok()) {
      Result<uint64_t> committed = CommitTransaction(file.fd(), file.temporary());
      status = TakeFailure(committed);
    }
    offset = *end;
  }
  // Everything is committed, so this fsync writes nothing. Without it, the next fsync after a
  // change of an attribute would log the whole file.
  if (status.ok()) status = SyncFd(file.fd(), file.temporary());
  return status;
}

// Whether the source is a file in this directory itself, not a file that is mounted there.
Result<bool> IsIn(const SourceVolume& source, int directory_fd, const std::string& directory) {
  if (DirectoryOf(source.path()) != directory) return false;
  Result<struct stat> top = StatFd(directory_fd, directory);
  RETURN_IF_ERROR(top);
  Result<struct stat> file = StatFd(source.fd(), source.path());
  RETURN_IF_ERROR(file);
  return file->st_dev == top->st_dev;
}

}  // namespace

void CopiedSources::Prepare(const std::vector<SourceVolume>& sources) {
  Clear();
  if (!TryPrepare(sources).ok()) Clear();
}

Status CopiedSources::TryPrepare(const std::vector<SourceVolume>& sources) {
  const auto first = std::find_if(sources.begin(), sources.end(),
                                  [](const SourceVolume& source) { return source.MustFreeze(); });
  if (!path_.has_value() || first == sources.end()) return Status();
  subvolume_path_ = DirectoryOf(first->path());
  Result<UniqueFd> directory = OpenPath(subvolume_path_, O_RDONLY | O_DIRECTORY);
  RETURN_IF_ERROR(directory);
  Result<bool> is_subvolume = IsSubvolume(directory->get(), subvolume_path_);
  RETURN_IF_ERROR(is_subvolume);
  if (!*is_subvolume) return Status();
  subvolume_ = std::move(*directory);
  bool any = false;
  for (const SourceVolume& source : sources) {
    Result<bool> chosen = source.MustFreeze();
    if (*chosen) chosen = IsIn(source, subvolume_.get(), subvolume_path_);
    if (chosen.ok() && *chosen) chosen = HasManyExtents(source);
    RETURN_IF_ERROR(chosen);
    if (*chosen) {
      Result<bool> in_place = IsWrittenInPlace(source.fd(), source.path());
      RETURN_IF_ERROR(in_place);
      chosen = !*in_place;
    }
    chosen_.push_back(*chosen);
    any = any || *chosen;
  }
  if (!any) return Status();
  Result<bool> removed = RemoveSubvolumeCopy(*path_);
  RETURN_IF_ERROR(removed);
  // Copy() commits a transaction under the freeze. A commit here, without a freeze, keeps it short.
  if (RetryInterrupted([&] { return syncfs(subvolume_.get()); }) == -1) {
    return Status::Errno(errno, "syncfs", subvolume_path_);
  }
  return Status();
}

void CopiedSources::Copy() {
  if (std::find(chosen_.begin(), chosen_.end(), true) == chosen_.end()) return;
  Result<SubvolumeCopy> copy = SubvolumeCopy::Make(subvolume_.get(), *path_);
  if (copy.ok()) {
    copy_.emplace(std::move(*copy));
  } else {
    Clear();
  }
}

Status CopiedSources::CloneInto(const SourceVolume& source, const NewFile& file) const {
  Result<struct stat> state = StatFd(source.fd(), source.path());
  RETURN_IF_ERROR(state);
  const std::string name = source.path().substr(source.path().rfind('/') + 1);
  Result<UniqueFd> copied = copy_->Open(name, state->st_ino);
  RETURN_IF_ERROR(copied);
  return CloneInTransactions(copied->get(), file, static_cast<uint64_t>(state->st_size));
}

void CopiedSources::Clear() {
  chosen_.clear();
  copy_.reset();
}

}  // namespace blockdelta
