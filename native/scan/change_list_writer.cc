#include "native/scan/change_list_writer.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "native/base/posix.h"
#include "native/scan/message_entries.h"

namespace blockdelta {

using change_list::kPageBytes;
using change_list::kUnitBytes;

namespace {

Status WriteAll(int fd, const uint8_t* data, size_t bytes, uint64_t offset,
                const std::string& path) {
  while (bytes > 0) {
    const ssize_t written =
        RetryInterrupted([&] { return pwrite(fd, data, bytes, static_cast<off_t>(offset)); });
    if (written <= 0) return Status::Errno(written == -1 ? errno : EIO, "pwrite", path);
    data += written;
    bytes -= static_cast<size_t>(written);
    offset += static_cast<uint64_t>(written);
  }
  return Status();
}

}  // namespace

ChangeListWriter::ChangeListWriter(UniqueFd fd, std::string path, ChangeListKind kind,
                                   const ChangeListProgress& progress)
    : fd_(std::move(fd)),
      path_(std::move(path)),
      kind_(kind),
      progress_(progress),
      pages_(kPagesPerWrite * kPageBytes),
      page_(kind, CurrentPage()) {}

Result<ChangeListWriter> ChangeListWriter::Create(const std::string& path, ChangeListKind kind) {
  Status removed = UnlinkPath(path);
  if (!removed.ok() && !removed.IsErrno(ENOENT)) return removed;
  Result<UniqueFd> fd = OpenPath(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  RETURN_IF_ERROR(fd);
  ChangeListProgress progress;
  if (getrandom(&progress.file_id, sizeof progress.file_id, 0) !=
      static_cast<ssize_t>(sizeof progress.file_id)) {
    return Status::Errno(errno, "getrandom", path);
  }
  // Room for the head, which is written last.
  RETURN_IF_ERROR(TruncateFd(fd->get(), kPageBytes, path));
  return ChangeListWriter(std::move(*fd), path, kind, progress);
}

Result<ChangeListWriter> ChangeListWriter::Continue(const std::string& path, ChangeListKind kind,
                                                    const ChangeListProgress& progress) {
  Result<UniqueFd> fd = OpenPath(path, O_RDWR | O_NOFOLLOW);
  if (fd.status().IsErrno(ENOENT)) return change_list::Invalid(path, "it is gone");
  RETURN_IF_ERROR(fd);
  Result<struct stat> state = StatFd(fd->get(), path);
  RETURN_IF_ERROR(state);
  if (progress.pages > change_list::kMaxPages ||
      static_cast<uint64_t>(state->st_size) != (progress.pages + 1) * kPageBytes) {
    return change_list::Invalid(path, "it was changed while it was made");
  }
  return ChangeListWriter(std::move(*fd), path, kind, progress);
}

Status ChangeListWriter::Add(const ChangeListEntry& entry) {
  if (entry.start >= entry.end || entry.start < std::max(open_.end, progress_.end) ||
      entry.start % kUnitBytes != 0 || entry.end % kUnitBytes != 0 ||
      entry.physical % kUnitBytes != 0) {
    return Status::Errno(EINVAL, "ChangeListWriter::Add", path_);
  }
  if (Joins(entry)) {
    open_.end = entry.end;
    return Status();
  }
  Status status = AddOpen();
  open_ = entry;
  return status;
}

bool ChangeListWriter::Joins(const ChangeListEntry& entry) const {
  if (open_.start == open_.end || entry.start != open_.end) return false;
  if (kind_ != ChangeListKind::kMap) return true;
  if (entry.opaque || open_.opaque) return entry.opaque && open_.opaque;
  return entry.physical - open_.physical == entry.start - open_.start;
}

Status ChangeListWriter::AddOpen() {
  if (open_.start == open_.end) return Status();
  if (!page_.Add(open_)) {
    RETURN_IF_ERROR(FinishPage());
    page_.Add(open_);
  }
  progress_.entries++;
  progress_.entry_bytes += open_.end - open_.start;
  progress_.end = open_.end;
  open_ = {};
  return Status();
}

Status ChangeListWriter::FinishPage() {
  if (page_.empty()) return Status();
  progress_.pages++;
  page_.Finish(progress_.pages, progress_.file_id);
  complete_++;
  Status status = complete_ == kPagesPerWrite ? WritePages() : Status();
  page_ = change_list::PageEncoder(kind_, CurrentPage());
  return status;
}

Status ChangeListWriter::WritePages() {
  const uint64_t first = progress_.pages - complete_ + 1;
  Status status =
      WriteAll(fd_.get(), pages_.data(), complete_ * kPageBytes, first * kPageBytes, path_);
  complete_ = 0;
  return status;
}

Span<uint8_t> ChangeListWriter::CurrentPage() {
  return Span<uint8_t>(pages_.data() + complete_ * kPageBytes, kPageBytes);
}

Status ChangeListWriter::Flush() {
  Status status = AddOpen();
  if (status.ok()) status = FinishPage();
  if (status.ok() && complete_ > 0) status = WritePages();
  page_ = change_list::PageEncoder(kind_, CurrentPage());
  return status;
}

Status ChangeListWriter::Publish(const ListedSnapshot& target, const ListedSnapshot& base,
                                 const std::string& final_path) {
  for (const ListedSnapshot* snapshot : {&target, &base}) {
    if (snapshot->id.size() > change_list::kMaxIdBytes) {
      return Status::Errno(ENAMETOOLONG, "ChangeListWriter::Publish", final_path);
    }
  }
  ChangeListHead head;
  head.kind = kind_;
  head.file_id = progress_.file_id;
  head.pages = progress_.pages;
  head.entries = progress_.entries;
  head.entry_bytes = progress_.entry_bytes;
  head.target = target;
  head.base = base;
  std::vector<uint8_t> page(kPageBytes);
  change_list::EncodeHead(head, Span<uint8_t>(page.data(), page.size()));
  Status status = WriteAll(fd_.get(), page.data(), page.size(), 0, path_);
  if (status.ok()) status = SyncFd(fd_.get(), path_);
  if (!status.ok()) return status;
  if (std::rename(path_.c_str(), final_path.c_str()) == -1) {
    return Status::Errno(errno, "rename", final_path);
  }
  return SyncDirectoryOf(final_path);
}

Status AddMessageEntries(Span<const uint8_t> messages, ChangeListWriter* list) {
  MessageEntries entries(messages);
  ChangeListEntry entry;
  uint64_t size = 0;
  while (entries.Next(&entry.start, &size)) {
    entry.end = entry.start + size;
    RETURN_IF_ERROR(list->Add(entry));
  }
  return Status();
}

}  // namespace blockdelta
