#include "native/thin/create_bookmark.h"

#include <cerrno>
#include <cstdio>
#include <utility>

#include "native/base/posix.h"
#include "native/thin/bookmark_writer.h"

namespace blockdelta {
namespace {

// Calls `take(begin, end)` for each range of mapped blocks, joined across reads.
template <typename Take>
Status ForEachRange(ThinScan* scan, KeyRange blocks, const std::string& path, const Take& take) {
  KeyRange open = {0, 0};
  DeltaWalk* const walk = scan->walk();
  Status status = walk->Seek(blocks);
  while (status.ok() && !walk->done()) {
    Result<Span<const DeltaRun>> runs = walk->Read();
    RETURN_IF_ERROR(runs);
    for (const DeltaRun& run : *runs) {
      if (run.kind == DeltaKind::kDifferent) {
        return Status::Errno(EINVAL, "createThinBookmark", path,
                             "block " + std::to_string(run.begin) +
                                 " is as young as the snapshot: the snapshot was written to");
      }
      if (run.begin != open.high && open.low < open.high) status = take(open.low, open.high);
      if (run.begin != open.high) open.low = run.begin;
      open.high = run.end();
      if (!status.ok()) return status;
    }
  }
  if (status.ok() && open.low < open.high) status = take(open.low, open.high);
  return status;
}

Status CountRanges(ThinScan* scan, const BookmarkRequest& request, BookmarkInfo* info) {
  Status status = ForEachRange(scan, {0, info->size_blocks}, request.metadata,
                               [&](uint64_t low, uint64_t high) {
                                 info->ranges++;
                                 info->mapped_blocks += high - low;
                                 return Status();
                               });
  if (!status.ok()) return status;
  BookmarkInfo bitmap = *info;
  bitmap.form = BookmarkForm::kBitmap;
  if (bookmark_format::BodyPages(bitmap) < bookmark_format::BodyPages(*info)) *info = bitmap;
  return Status();
}

// Walks the tree a second time: the first walk only decides on the smaller form, so that memory
// stays bounded.
Status Write(ThinScan* scan, const BookmarkRequest& request, const BookmarkInfo& info) {
  Result<BookmarkWriter> writer = BookmarkWriter::Create(request.temporary_path, info);
  RETURN_IF_ERROR(writer);
  Status status = ForEachRange(scan, {0, info.size_blocks}, request.metadata,
                               [&](uint64_t low, uint64_t high) { return writer->Add(low, high); });
  if (status.ok()) status = writer->Finish();
  return status;
}

Status Publish(const BookmarkRequest& request) {
  if (renameat2(AT_FDCWD, request.temporary_path.c_str(), AT_FDCWD, request.path.c_str(),
                RENAME_NOREPLACE) == -1) {
    return Status::Errno(errno, "renameat2", request.path);
  }
  return SyncDirectoryOf(request.path);
}

Result<BookmarkInfo> WriteTemporary(const BookmarkRequest& request) {
  ThinScanRequest scan_request;
  scan_request.metadata = request.metadata;
  scan_request.superblock = request.superblock;
  scan_request.target = request.device;
  scan_request.mark_young = true;
  Result<std::unique_ptr<ThinScan>> scan = ThinScan::Open(scan_request);
  RETURN_IF_ERROR(scan);
  BookmarkInfo info;
  info.creation_time = (*scan)->creation_time();
  info.data_block_bytes = (*scan)->data_block_bytes();
  info.size_blocks = request.size_bytes / info.data_block_bytes +
                     (request.size_bytes % info.data_block_bytes != 0 ? 1 : 0);
  Status status = CountRanges(scan->get(), request, &info);
  if (status.ok()) status = Write(scan->get(), request, info);
  status = (*scan)->Confirm(std::move(status));
  if (!status.ok()) return status;
  return info;
}

}  // namespace

Result<WrittenBookmark> VerifyBookmark(const std::string& path) {
  Result<std::unique_ptr<Bookmark>> bookmark = Bookmark::Open(path);
  RETURN_IF_ERROR(bookmark);
  RETURN_IF_ERROR((*bookmark)->Verify());
  return WrittenBookmark{(*bookmark)->file_bytes(), (*bookmark)->info()};
}

Result<WrittenBookmark> CreateBookmark(const BookmarkRequest& request) {
  Result<WrittenBookmark> existing = VerifyBookmark(request.path);
  if (!existing.status().IsErrno(ENOENT)) return existing;
  Result<BookmarkInfo> info = WriteTemporary(request);
  Status status = info.ok() ? Publish(request) : info.TakeStatus();
  if (!status.ok()) {
    unlink(request.temporary_path.c_str());
    return status;
  }
  return VerifyBookmark(request.path);
}

}  // namespace blockdelta
