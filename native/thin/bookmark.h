// A bookmark: a file with the creation time and the mapped blocks of a deleted snapshot.
//
// The file consists of pages of 4096 bytes, little-endian; each starts with the crc32c of the rest
// (as metadata blocks do) and contains its own number. The first page is the head. The others
// contain the blocks as ranges, 255 per page (u64 begin, u64 end, ascending, with gaps between
// them), or as a bitmap, 32,640 blocks per page. Everything is checked before use; a violation is
// THIN_METADATA_INVALID. Memory: 64 KiB, whatever the size of the file.
#ifndef BLOCKDELTA_NATIVE_THIN_BOOKMARK_H_
#define BLOCKDELTA_NATIVE_THIN_BOOKMARK_H_

#include <cstdint>
#include <memory>
#include <string>

#include "native/base/unique_fd.h"
#include "native/thin/block_source.h"
#include "native/thin/bookmark_ranges.h"

namespace blockdelta {

enum class BookmarkForm : uint32_t { kRanges = 1, kBitmap = 2 };

struct BookmarkInfo {
  BookmarkForm form = BookmarkForm::kRanges;
  // The pool's time when the snapshot was created.
  uint32_t creation_time = 0;
  uint64_t data_block_bytes = 0;
  // Size of the volume in blocks; no block beyond it is mapped.
  uint64_t size_blocks = 0;
  uint64_t mapped_blocks = 0;
  uint64_t ranges = 0;
};

namespace bookmark_format {
inline constexpr size_t kPageBytes = kMetadataBlockBytes;
inline constexpr char kMagic[] = "blockdelta base";  // 16 bytes with its NUL.
inline constexpr uint32_t kVersion = 1;
inline constexpr uint32_t kSalt = 0x6b657074;

// In every page.
inline constexpr size_t kPageNumber = 8;
// In the head.
inline constexpr size_t kMagicOffset = 16;
inline constexpr size_t kVersionOffset = 32;
inline constexpr size_t kForm = 36;
inline constexpr size_t kCreationTime = 40;
inline constexpr size_t kDataBlockBytes = 48;
inline constexpr size_t kSizeBlocks = 56;
inline constexpr size_t kMappedBlocks = 64;
inline constexpr size_t kRanges = 72;
// In the other pages.
inline constexpr size_t kBody = 16;
inline constexpr uint64_t kRangesPerPage = (kPageBytes - kBody) / 16;
inline constexpr uint64_t kBlocksPerPage = (kPageBytes - kBody) * 8;

// Number of pages after the head.
uint64_t BodyPages(const BookmarkInfo& info);
}  // namespace bookmark_format

class Bookmark final : public BookmarkRanges {
 public:
  // Opens a bookmark, reads its head and checks the size of the file.
  static Result<std::unique_ptr<Bookmark>> Open(const std::string& path);

  const BookmarkInfo& info() const { return info_; }
  uint64_t file_bytes() const;
  // Reads the whole file and checks every page and the counts in the head.
  Status Verify();

  Status Seek(uint64_t block) override;

 private:
  static constexpr size_t kPagesPerRead = 16;

  Bookmark(UniqueFd fd, std::string path)
      : fd_(std::move(fd)), path_(std::move(path)), pages_(kPagesPerRead) {}

  Status Next() override;
  Status ReadHead();
  Status CheckHead(const uint8_t* head) const;
  Result<const uint8_t*> Page(uint64_t number);
  Status LoadPages(uint64_t first);
  Status Invalid(uint64_t page, const std::string& what) const;

  Result<KeyRange> RangeAt(uint64_t index);
  Status SeekRange(uint64_t block);
  Status NextRange();
  Result<uint64_t> FindBit(uint64_t block, bool wanted);
  Status NextBits(uint64_t block);

  UniqueFd fd_;
  std::string path_;
  BookmarkInfo info_;
  BlockBuffer pages_;
  uint64_t first_page_ = 0;
  size_t page_count_ = 0;
  // Index of the range after the current one.
  uint64_t next_index_ = 0;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_BOOKMARK_H_
