#include "native/thin/bookmark.h"

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

constexpr uint64_t kMaxVolumeBytes = INT64_MAX;
constexpr uint64_t kBitsPerWord = 64;

uint64_t Divide(uint64_t number, uint64_t by) { return number / by + (number % by != 0 ? 1 : 0); }

}  // namespace

uint64_t bookmark_format::BodyPages(const BookmarkInfo& info) {
  return info.form == BookmarkForm::kRanges ? Divide(info.ranges, kRangesPerPage)
                                            : Divide(info.size_blocks, kBlocksPerPage);
}

Result<std::unique_ptr<Bookmark>> Bookmark::Open(const std::string& path) {
  Result<UniqueFd> fd = OpenPath(path, O_RDONLY | O_NOFOLLOW);
  RETURN_IF_ERROR(fd);
  std::unique_ptr<Bookmark> bookmark(new Bookmark(std::move(*fd), path));
  RETURN_IF_ERROR(bookmark->ReadHead());
  return bookmark;
}

uint64_t Bookmark::file_bytes() const { return (1 + BodyPages(info_)) * kPageBytes; }

Status Bookmark::Invalid(uint64_t page, const std::string& what) const {
  return InvalidBlock(path_, page, what);
}

Status Bookmark::ReadHead() {
  Result<struct stat> state = StatFd(fd_.get(), path_);
  RETURN_IF_ERROR(state);
  if (!S_ISREG(state->st_mode)) {
    return Status::Errno(EINVAL, "open", path_, "it is not a regular file");
  }
  if (static_cast<uint64_t>(state->st_size) < kPageBytes) {
    return Invalid(0, "expected the head of a bookmark, found a file of " +
                          std::to_string(state->st_size) + " bytes");
  }
  RETURN_IF_ERROR(LoadPages(0));
  const uint8_t* const head = pages_.block(0);
  RETURN_IF_ERROR(CheckHead(head));
  info_.form = static_cast<BookmarkForm>(ReadLe32(head + kForm));
  info_.creation_time = ReadLe32(head + kCreationTime);
  info_.data_block_bytes = ReadLe64(head + kDataBlockBytes);
  info_.size_blocks = ReadLe64(head + kSizeBlocks);
  info_.mapped_blocks = ReadLe64(head + kMappedBlocks);
  info_.ranges = ReadLe64(head + kRanges);
  if (file_bytes() == static_cast<uint64_t>(state->st_size)) return Status();
  return Invalid(0, "expected a file of " + std::to_string(file_bytes()) + " bytes, found " +
                        std::to_string(state->st_size));
}

Status Bookmark::CheckHead(const uint8_t* head) const {
  const uint64_t block_bytes = ReadLe64(head + kDataBlockBytes);
  const uint64_t blocks = ReadLe64(head + kSizeBlocks);
  const uint64_t mapped = ReadLe64(head + kMappedBlocks);
  const uint64_t ranges = ReadLe64(head + kRanges);
  const uint32_t form = ReadLe32(head + kForm);
  const uint32_t version = ReadLe32(head + kVersionOffset);
  if (std::memcmp(head + kMagicOffset, kMagic, sizeof(kMagic)) != 0) {
    return Invalid(0, "expected the head of a bookmark, found another magic");
  }
  if (version != kVersion) {
    return Invalid(0, "expected version 1 of a bookmark, found " + std::to_string(version));
  }
  constexpr uint64_t kMinBlockBytes =
      uint64_t{superblock_format::kMinDataBlockSectors} * superblock_format::kSectorBytes;
  constexpr uint64_t kMaxBlockBytes =
      uint64_t{superblock_format::kMaxDataBlockSectors} * superblock_format::kSectorBytes;
  const bool is_sound =
      (form == 1 || form == 2) && ReadLe32(head + kCreationTime) <= kMappingTimeMask &&
      block_bytes >= kMinBlockBytes && block_bytes <= kMaxBlockBytes &&
      block_bytes % kMinBlockBytes == 0 && blocks <= kMaxVolumeBytes / block_bytes + 1 &&
      mapped <= blocks && ranges <= mapped && (ranges == 0) == (mapped == 0);
  return is_sound ? Status() : Invalid(0, "the fields of this bookmark contradict each other");
}

Status Bookmark::LoadPages(uint64_t first) {
  page_count_ = 0;
  const size_t wanted =
      first == 0 ? 1 : std::min<uint64_t>(kPagesPerRead, 1 + BodyPages(info_) - first);
  size_t read = 0;
  while (read < wanted * kPageBytes) {
    const auto offset = static_cast<off_t>(first * kPageBytes + read);
    const ssize_t bytes = RetryInterrupted(
        [&] { return pread(fd_.get(), pages_.data() + read, wanted * kPageBytes - read, offset); });
    if (bytes == -1) return Status::Errno(errno, "pread", path_);
    if (bytes == 0) return Invalid(first, "the bookmark ends before this block");
    read += static_cast<size_t>(bytes);
  }
  for (size_t i = 0; i < wanted; i++) {
    RETURN_IF_ERROR(CheckBlock(pages_.block(i), first + i, kSalt, "a page of a bookmark", path_));
  }
  first_page_ = first;
  page_count_ = wanted;
  return Status();
}

Result<const uint8_t*> Bookmark::Page(uint64_t number) {
  if (number < first_page_ || number - first_page_ >= page_count_) {
    RETURN_IF_ERROR(LoadPages(number));
  }
  return static_cast<const uint8_t*>(pages_.block(number - first_page_));
}

Status Bookmark::Seek(uint64_t block) {
  range_ = {UINT64_MAX, UINT64_MAX};
  if (info_.mapped_blocks == 0 || block >= info_.size_blocks) return Status();
  return info_.form == BookmarkForm::kRanges ? SeekRange(block) : NextBits(block);
}

Status Bookmark::Next() {
  return info_.form == BookmarkForm::kRanges ? NextRange() : NextBits(range_.high);
}

Result<KeyRange> Bookmark::RangeAt(uint64_t index) {
  const uint64_t number = 1 + index / kRangesPerPage;
  Result<const uint8_t*> page = Page(number);
  RETURN_IF_ERROR(page);
  const uint8_t* const at = *page + kBody + index % kRangesPerPage * 16;
  const KeyRange range = {ReadLe64(at), ReadLe64(at + 8)};
  if (range.low < range.high && range.high <= info_.size_blocks) return range;
  return Invalid(number, "expected a range below " + std::to_string(info_.size_blocks) +
                             ", found one from " + std::to_string(range.low) + " to " +
                             std::to_string(range.high));
}

// Seeks the first range that ends above `block`.
Status Bookmark::SeekRange(uint64_t block) {
  uint64_t low = 0;
  uint64_t high = info_.ranges;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    Result<KeyRange> range = RangeAt(middle);
    RETURN_IF_ERROR(range);
    if (range->high > block) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  next_index_ = low;
  range_ = {0, 0};
  Status status = NextRange();
  range_.low = std::max(range_.low, block);
  return status;
}

Status Bookmark::NextRange() {
  const uint64_t previous_end = range_.high;
  range_ = {UINT64_MAX, UINT64_MAX};
  if (next_index_ == info_.ranges) return Status();
  Result<KeyRange> range = RangeAt(next_index_);
  RETURN_IF_ERROR(range);
  if (previous_end > 0 && range->low <= previous_end) {
    return Invalid(1 + next_index_ / kRangesPerPage,
                   "expected a range above " + std::to_string(previous_end) + ", found one from " +
                       std::to_string(range->low));
  }
  next_index_++;
  range_ = *range;
  return Status();
}

// The first block from `block` on whose bit is `wanted`; size_blocks if there is none.
Result<uint64_t> Bookmark::FindBit(uint64_t block, bool wanted) {
  while (block < info_.size_blocks) {
    Result<const uint8_t*> page = Page(1 + block / kBlocksPerPage);
    RETURN_IF_ERROR(page);
    const uint64_t word_index = block % kBlocksPerPage / kBitsPerWord;
    uint64_t word = ReadLe64(*page + kBody + word_index * sizeof(uint64_t));
    if (!wanted) word = ~word;
    word = word >> block % kBitsPerWord << block % kBitsPerWord;
    block -= block % kBitsPerWord;
    if (word != 0) {
      block += static_cast<uint64_t>(__builtin_ctzll(word));
      break;
    }
    block += kBitsPerWord;
  }
  return std::min(block, info_.size_blocks);
}

Status Bookmark::NextBits(uint64_t block) {
  range_ = {UINT64_MAX, UINT64_MAX};
  Result<uint64_t> low = FindBit(block, true);
  RETURN_IF_ERROR(low);
  if (*low == info_.size_blocks) return Status();
  Result<uint64_t> high = FindBit(*low, false);
  RETURN_IF_ERROR(high);
  range_ = {*low, *high};
  return Status();
}

Status Bookmark::Verify() {
  uint64_t mapped = 0;
  uint64_t ranges = 0;
  Status status = Seek(0);
  while (status.ok() && range_.low != UINT64_MAX) {
    mapped += range_.high - range_.low;
    ranges++;
    status = Consume(range_.high);
  }
  if (!status.ok()) return status;
  if (mapped == info_.mapped_blocks && ranges == info_.ranges) return Status();
  return Invalid(0, "expected " + std::to_string(info_.mapped_blocks) + " blocks in " +
                        std::to_string(info_.ranges) + " ranges, found " + std::to_string(mapped) +
                        " in " + std::to_string(ranges));
}

}  // namespace blockdelta
