// Writes the file of a bookmark, page by page.
#ifndef BLOCKDELTA_NATIVE_THIN_BOOKMARK_WRITER_H_
#define BLOCKDELTA_NATIVE_THIN_BOOKMARK_WRITER_H_

#include <cstdint>
#include <string>

#include "native/thin/bookmark.h"

namespace blockdelta {

class BookmarkWriter {
 public:
  // Replaces an existing file. The counts in `info` are those of the ranges that will be added.
  static Result<BookmarkWriter> Create(const std::string& path, const BookmarkInfo& info);

  // REQUIRES: begin < end <= size_blocks, and a gap after the previous range.
  Status Add(uint64_t begin, uint64_t end);
  // Writes the remaining pages and makes the file durable; the caller syncs the directory.
  Status Finish();

 private:
  BookmarkWriter(UniqueFd fd, std::string path, const BookmarkInfo& info);

  Status AddRange(uint64_t begin, uint64_t end);
  Status AddBits(uint64_t begin, uint64_t end);
  Status GoTo(uint64_t page);
  Status WritePage();

  UniqueFd fd_;
  std::string path_;
  BookmarkInfo info_;
  BlockBuffer page_{1};
  uint64_t number_ = 0;
  uint64_t ranges_ = 0;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_BOOKMARK_WRITER_H_
