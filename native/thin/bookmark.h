// What is kept of a snapshot when it is deleted, in a file: when it was made, and which blocks it
// had mapped.
//
// Pages of 4096 bytes, little-endian; each begins with the crc32c of the rest (as metadata blocks
// do) and has its own number. The first one is the head, the others hold the blocks: ranges, 255 a
// page (u64 begin, u64 end, ascending, with gaps between them), or a bitmap, 32,640 blocks a page.
// Nothing in the file is believed before it is checked; what is not right is THIN_METADATA_INVALID.
// Memory: 64 KiB, whatever the file's size.
#ifndef BLOCKDELTA_NATIVE_THIN_KEPT_BASE_H_
#define BLOCKDELTA_NATIVE_THIN_KEPT_BASE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "native/base/unique_fd.h"
#include "native/thin/block_buffer.h"
#include "native/thin/kept_ranges.h"

namespace blockdelta {

enum class KeptForm : uint32_t { kRanges = 1, kBitmap = 2 };

struct KeptBaseInfo {
  KeptForm form = KeptForm::kRanges;
  // The pool's time when the snapshot was made.
  uint32_t creation_time = 0;
  uint64_t data_block_bytes = 0;
  // Blocks of the volume; none beyond are mapped.
  uint64_t size_blocks = 0;
  uint64_t mapped_blocks = 0;
  uint64_t ranges = 0;
};

namespace kept_format {
inline constexpr size_t kPageBytes = kMetadataBlockBytes;
inline constexpr char kMagic[] = "blockdelta base";  // 16 bytes with its zero.
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
// In the others.
inline constexpr size_t kBody = 16;
inline constexpr uint64_t kRangesPerPage = (kPageBytes - kBody) / 16;
inline constexpr uint64_t kBlocksPerPage = (kPageBytes - kBody) * 8;

// Pages behind the head.
uint64_t BodyPages(const KeptBaseInfo& info);
}  // namespace kept_format

class KeptBase final : public KeptRanges {
 public:
  // Reads the head, and looks whether the file has the size that it says.
  static Result<std::unique_ptr<KeptBase>> Open(const std::string& path);

  const KeptBaseInfo& info() const { return info_; }
  uint64_t file_bytes() const;
  // Reads everything once: whether every page is sound, and the counts are those of the head.
  Status Verify();

  Status Seek(uint64_t block) override;

 private:
  static constexpr size_t kPagesPerRead = 16;

  KeptBase(UniqueFd fd, std::string path)
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
  KeptBaseInfo info_;
  BlockBuffer pages_;
  uint64_t first_page_ = 0;
  size_t page_count_ = 0;
  // Of the range after the current one.
  uint64_t next_index_ = 0;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_KEPT_BASE_H_
