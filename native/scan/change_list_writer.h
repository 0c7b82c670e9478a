// Writes a change list page by page, in several steps if need be.
//
// Until Publish() the file has its temporary name and no valid head, so that an incomplete list is
// never taken for a complete one.
#ifndef BLOCKDELTA_NATIVE_SCAN_CHANGE_LIST_WRITER_H_
#define BLOCKDELTA_NATIVE_SCAN_CHANGE_LIST_WRITER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "native/base/unique_fd.h"
#include "native/scan/change_list_format.h"

namespace blockdelta {

// What a later step needs to continue: plain numbers, which the caller keeps.
struct ChangeListProgress {
  uint64_t file_id = 0;
  uint64_t pages = 0;
  uint64_t entries = 0;
  uint64_t entry_bytes = 0;
  // End of the last entry.
  uint64_t end = 0;
};

class ChangeListWriter {
 public:
  // Creates the file, in place of one that a killed call has left.
  static Result<ChangeListWriter> Create(const std::string& path, ChangeListKind kind);
  // Continues after Flush() of another writer. LIST_INVALID if the file was changed since.
  static Result<ChangeListWriter> Continue(const std::string& path, ChangeListKind kind,
                                           const ChangeListProgress& progress);

  // Adds an entry; joins it to the previous one if they are adjacent and, in a map, contiguous on
  // the device. EINVAL if it is empty, not in units, or not behind the previous one.
  Status Add(const ChangeListEntry& entry);
  // Writes the added entries. An incomplete page stays short; the next entry starts another page.
  Status Flush();
  const ChangeListProgress& progress() const { return progress_; }

  // Writes the head and gives the file its final name, durably. REQUIRES: Flush() came last.
  // Replaces a file with that name.
  Status Publish(const ListedSnapshot& target, const ListedSnapshot& base,
                 const std::string& final_path);

 private:
  // Pages that are written together.
  static constexpr size_t kPagesPerWrite = 64;

  ChangeListWriter(UniqueFd fd, std::string path, ChangeListKind kind,
                   const ChangeListProgress& progress);

  bool Joins(const ChangeListEntry& entry) const;
  Status AddOpen();
  Status FinishPage();
  Status WritePages();
  Span<uint8_t> CurrentPage();

  UniqueFd fd_;
  std::string path_;
  ChangeListKind kind_;
  ChangeListProgress progress_;
  std::vector<uint8_t> pages_;
  // Number of complete pages in `pages_`, which are counted in the progress and not written yet.
  size_t complete_ = 0;
  change_list::PageEncoder page_;
  // The last entry, to which more may be joined; empty if there is none.
  ChangeListEntry open_;
};

// Adds the ranges of whole messages that a MessageWriter has written.
Status AddMessageEntries(Span<const uint8_t> messages, ChangeListWriter* list);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_SCAN_CHANGE_LIST_WRITER_H_
