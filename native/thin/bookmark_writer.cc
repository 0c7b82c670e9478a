#include "native/thin/bookmark_writer.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "native/base/posix.h"
#include "native/thin/metadata_block.h"
#include "native/thin/thin_format.h"

namespace blockdelta {

using namespace bookmark_format;

namespace {

constexpr mode_t kMode = 0600;

// Sets bits [begin, end).
void SetBits(uint8_t* bits, uint64_t begin, uint64_t end) {
  for (; begin < end && begin % 8 != 0; begin++) {
    bits[begin / 8] |= static_cast<uint8_t>(1u << begin % 8);
  }
  const uint64_t bytes = (end - begin) / 8;
  std::memset(bits + begin / 8, 0xff, bytes);
  for (begin += bytes * 8; begin < end; begin++) {
    bits[begin / 8] |= static_cast<uint8_t>(1u << begin % 8);
  }
}

}  // namespace

BookmarkWriter::BookmarkWriter(UniqueFd fd, std::string path, const BookmarkInfo& info)
    : fd_(std::move(fd)), path_(std::move(path)), info_(info) {
  uint8_t* const head = page_.data();
  std::memset(head, 0, kPageBytes);
  std::memcpy(head + kMagicOffset, kMagic, sizeof(kMagic));
  WriteLe32(head + kVersionOffset, kVersion);
  WriteLe32(head + kForm, static_cast<uint32_t>(info.form));
  WriteLe32(head + kCreationTime, info.creation_time);
  WriteLe64(head + kDataBlockBytes, info.data_block_bytes);
  WriteLe64(head + kSizeBlocks, info.size_blocks);
  WriteLe64(head + kMappedBlocks, info.mapped_blocks);
  WriteLe64(head + kRanges, info.ranges);
}

Result<BookmarkWriter> BookmarkWriter::Create(const std::string& path, const BookmarkInfo& info) {
  Result<UniqueFd> fd = OpenPath(path, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW, kMode);
  RETURN_IF_ERROR(fd);
  return BookmarkWriter(std::move(*fd), path, info);
}

Status BookmarkWriter::Add(uint64_t begin, uint64_t end) {
  return info_.form == BookmarkForm::kRanges ? AddRange(begin, end) : AddBits(begin, end);
}

Status BookmarkWriter::AddRange(uint64_t begin, uint64_t end) {
  const uint64_t index = ranges_++;
  RETURN_IF_ERROR(GoTo(1 + index / kRangesPerPage));
  uint8_t* const at = page_.data() + kBody + index % kRangesPerPage * 16;
  WriteLe64(at, begin);
  WriteLe64(at + 8, end);
  return Status();
}

Status BookmarkWriter::AddBits(uint64_t begin, uint64_t end) {
  while (begin < end) {
    const uint64_t page = begin / kBlocksPerPage;
    RETURN_IF_ERROR(GoTo(1 + page));
    const uint64_t page_begin = page * kBlocksPerPage;
    const uint64_t stop = std::min(end, page_begin + kBlocksPerPage);
    SetBits(page_.data() + kBody, begin - page_begin, stop - page_begin);
    begin = stop;
  }
  return Status();
}

// Writes the pages before `page`.
Status BookmarkWriter::GoTo(uint64_t page) {
  while (number_ < page) {
    RETURN_IF_ERROR(WritePage());
    number_++;
    std::memset(page_.data(), 0, kPageBytes);
  }
  return Status();
}

Status BookmarkWriter::WritePage() {
  WriteLe64(page_.data() + kPageNumber, number_);
  WriteLe32(page_.data(), ChecksumOf(page_.data(), kSalt));
  size_t written = 0;
  while (written < kPageBytes) {
    const auto offset = static_cast<off_t>(number_ * kPageBytes + written);
    const ssize_t bytes = RetryInterrupted(
        [&] { return pwrite(fd_.get(), page_.data() + written, kPageBytes - written, offset); });
    if (bytes == -1) return Status::Errno(errno, "pwrite", path_);
    written += static_cast<size_t>(bytes);
  }
  return Status();
}

Status BookmarkWriter::Finish() {
  Status status = GoTo(BodyPages(info_));
  if (status.ok()) status = WritePage();
  if (status.ok()) status = SyncFd(fd_.get(), path_);
  return status;
}

}  // namespace blockdelta
