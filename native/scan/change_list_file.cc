#include "native/scan/change_list_file.h"

#include <linux/fiemap.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "native/base/posix.h"

namespace blockdelta {

using change_list::kPageBytes;

Result<ChangeListFile> ChangeListFile::Open(const std::string& path) {
  // O_NONBLOCK: if the path is a pipe, do not wait for its writer.
  Result<UniqueFd> fd = OpenPath(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  RETURN_IF_ERROR(fd);
  Result<struct stat> state = StatFd(fd->get(), path);
  RETURN_IF_ERROR(state);
  const auto bytes = static_cast<uint64_t>(state->st_size);
  if (!S_ISREG(state->st_mode) || bytes < kPageBytes || bytes % kPageBytes != 0) {
    return change_list::Invalid(path, "it is not a file of whole pages");
  }
  ChangeListFile file(std::move(*fd), path);
  std::vector<uint8_t> page(kPageBytes);
  RETURN_IF_ERROR(file.ReadPages(0, 1, page.data()));
  Result<ChangeListHead> head = change_list::DecodeHead(page.data(), path);
  RETURN_IF_ERROR(head);
  file.head_ = std::move(*head);
  if (bytes != file.file_bytes()) {
    return change_list::Invalid(path, "it has " + std::to_string(bytes) +
                                          " bytes and should have " +
                                          std::to_string(file.file_bytes()));
  }
  return file;
}

Status ChangeListFile::ReadPages(uint64_t number, size_t count, uint8_t* to) const {
  const size_t bytes = count * kPageBytes;
  for (size_t done = 0; done < bytes;) {
    const auto at = static_cast<off_t>(number * kPageBytes + done);
    const ssize_t got =
        RetryInterrupted([&] { return pread(fd_.get(), to + done, bytes - done, at); });
    if (got == -1) return Status::Errno(errno, "pread", path_);
    if (got == 0) return change_list::Invalid(path_, "it was truncated while it was read");
    done += static_cast<size_t>(got);
  }
  return Status();
}

Status ChangeListCursor::Seek(uint64_t offset) {
  entries_.clear();
  index_ = 0;
  previous_end_ = 0;
  if (file_->head().pages == 0) return Status();
  Result<uint64_t> page = FindPage(offset);
  RETURN_IF_ERROR(page);
  if (*page > 1) {
    // Load() compares this end with the page: a bisection of unordered pages may end anywhere.
    Result<change_list::PageRange> before = ReadRange(*page - 1);
    RETURN_IF_ERROR(before);
    previous_end_ = before->end;
  }
  Status status = Load(*page);
  while (status.ok() && !at_end() && entry().end <= offset) status = Next();
  return status;
}

Result<uint64_t> ChangeListCursor::FindPage(uint64_t offset) {
  // Page `low` starts at or before the offset, or is the first one; page `high` starts after it.
  uint64_t low = 1;
  uint64_t high = file_->head().pages + 1;
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    Result<change_list::PageRange> range = ReadRange(middle);
    RETURN_IF_ERROR(range);
    if (range->first <= offset) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

Result<change_list::PageRange> ChangeListCursor::ReadRange(uint64_t number) {
  buffered_ = 0;
  RETURN_IF_ERROR(file_->ReadPages(number, 1, buffer_.data()));
  return change_list::CheckPage(buffer_.data(), file_->head(), number, file_->path());
}

Status ChangeListCursor::NextPage() {
  entries_.clear();
  index_ = 0;
  if (page_ == file_->head().pages) return Status();
  return Load(page_ + 1);
}

Status ChangeListCursor::Load(uint64_t number) {
  if (number < buffered_first_ || number >= buffered_first_ + buffered_) {
    const uint64_t left = file_->head().pages - number + 1;
    buffered_first_ = number;
    buffered_ = static_cast<size_t>(std::min<uint64_t>(left, buffer_.size() / kPageBytes));
    Status status = file_->ReadPages(number, buffered_, buffer_.data());
    if (!status.ok()) {
      buffered_ = 0;
      return status;
    }
  }
  const uint8_t* const page = buffer_.data() + (number - buffered_first_) * kPageBytes;
  Result<change_list::PageRange> range =
      change_list::CheckPage(page, file_->head(), number, file_->path());
  RETURN_IF_ERROR(range);
  if (range->first < previous_end_) {
    return change_list::Invalid(file_->path(), "page " + std::to_string(number) +
                                                   " starts before the end of the one before it");
  }
  previous_end_ = range->end;
  page_ = number;
  return change_list::DecodePage(page, file_->head(), number, file_->path(), &entries_);
}

StoredMapSource::StoredMapSource(const ChangeListFile* file) : cursor_(file, 16) {}

void StoredMapSource::Seek(uint64_t offset) {
  sought_ = offset;
  seeks_ = true;
}

Result<Span<const Extent>> StoredMapSource::Read(size_t wanted) {
  Status status = seeks_ ? cursor_.Seek(sought_) : Status();
  seeks_ = false;
  batch_.clear();
  const size_t most = std::min(wanted, kMaxBatchExtents);
  while (status.ok() && !cursor_.at_end() && batch_.size() < most) {
    const ChangeListEntry& entry = cursor_.entry();
    const uint32_t flags = entry.opaque ? FIEMAP_EXTENT_UNKNOWN : 0;
    batch_.push_back({entry.start, entry.physical, entry.end - entry.start, flags});
    status = cursor_.Next();
  }
  if (!status.ok()) {
    seeks_ = true;
    return status;
  }
  return Span<const Extent>(batch_.data(), batch_.size());
}

}  // namespace blockdelta
