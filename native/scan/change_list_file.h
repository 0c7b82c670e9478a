// Reads change lists and stored extent maps, and verifies everything in a file before use: a
// violation is LIST_INVALID with a message that names the file and what was found.
#ifndef BLOCKDELTA_NATIVE_SCAN_CHANGE_LIST_FILE_H_
#define BLOCKDELTA_NATIVE_SCAN_CHANGE_LIST_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "native/base/unique_fd.h"
#include "native/scan/change_list_format.h"
#include "native/scan/extent_source.h"

namespace blockdelta {

class ChangeListFile {
 public:
  // Opens the file, verifies its head and its size. ENOENT if there is no file.
  static Result<ChangeListFile> Open(const std::string& path);

  const ChangeListHead& head() const { return head_; }
  const std::string& path() const { return path_; }
  uint64_t file_bytes() const { return (head_.pages + 1) * change_list::kPageBytes; }

  // Reads `count` pages from `number` on. REQUIRES: they are within 1 to head().pages.
  Status ReadPages(uint64_t number, size_t count, uint8_t* to) const;

 private:
  ChangeListFile(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  UniqueFd fd_;
  std::string path_;
  ChangeListHead head_;
};

// A position in the entries of a list, which moves forward.
class ChangeListCursor {
 public:
  // `file` must outlive this. Memory: `pages_per_read` pages and the entries of one page.
  ChangeListCursor(const ChangeListFile* file, size_t pages_per_read)
      : file_(file), buffer_(pages_per_read * change_list::kPageBytes) {}

  // Moves to the first entry that ends after `offset`.
  Status Seek(uint64_t offset);
  // Moves to the next entry. REQUIRES: !at_end().
  Status Next() {
    if (++index_ < entries_.size()) return Status();
    return NextPage();
  }
  bool at_end() const { return index_ == entries_.size(); }
  // REQUIRES: !at_end().
  const ChangeListEntry& entry() const { return entries_[index_]; }

 private:
  // The last page that starts at or before `offset`; page 1 if there is none.
  Result<uint64_t> FindPage(uint64_t offset);
  // Replaces the buffer with this page.
  Result<change_list::PageRange> ReadRange(uint64_t number);
  Status NextPage();
  Status Load(uint64_t number);

  const ChangeListFile* const file_;
  std::vector<uint8_t> buffer_;
  // The pages in the buffer.
  uint64_t buffered_first_ = 0;
  size_t buffered_ = 0;
  uint64_t page_ = 0;
  // End of the entries of the previous page; the next page must not start before this end.
  uint64_t previous_end_ = 0;
  std::vector<ChangeListEntry> entries_;
  size_t index_ = 0;
};

// A stored map as a source of extents.
class StoredMapSource : public ExtentSource {
 public:
  // REQUIRES: the file is a map; it must outlive this.
  explicit StoredMapSource(const ChangeListFile* file);

  void Seek(uint64_t offset) override;
  Result<Span<const Extent>> Read(size_t wanted) override;

 private:
  ChangeListCursor cursor_;
  // The position from which the next read starts, because Seek() itself cannot fail.
  uint64_t sought_ = 0;
  bool seeks_ = true;
  std::vector<Extent> batch_;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_SCAN_CHANGE_LIST_FILE_H_
