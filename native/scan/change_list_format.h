// The file format of change lists, as docs/engineering/change-lists.md describes it.
//
// A file consists of pages of 4096 bytes, little-endian. Each page starts with the CRC-32C of the
// rest of the page and holds its own number and the random id of its file, so that a page that was
// damaged, misplaced or left by another file is never taken for one of this file. Page 0 is the
// head. The other pages hold entries in ascending order, and each page can be decoded on its own:
// the first offset and the end in a page's header let a reader find any offset by bisection.
#ifndef BLOCKDELTA_NATIVE_SCAN_CHANGE_LIST_FORMAT_H_
#define BLOCKDELTA_NATIVE_SCAN_CHANGE_LIST_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "native/base/span.h"
#include "native/base/status.h"

namespace blockdelta {

enum class ChangeListKind : uint32_t {
  // Ranges of the target that may differ from the base.
  kDelta = 1,
  // Ranges of the target that may hold data.
  kAllocated = 2,
  // The extents of the target.
  kMap = 3,
};

// What the snapshots of a list are.
enum class ListedKind : uint32_t {
  kFile = 0,
  // Devices of a thin pool, which are never activated.
  kThinDevice = 1,
};

// Identifies a snapshot's file in one state: a change makes another version. Inode numbers are
// reused, so the version contains the generation; it contains no device number, because those
// change from boot to boot.
//
// The generation of a thin device is the pool's time at its creation, which identifies the device
// in its pool because creating a snapshot raises that time. Its inode and change time are 0.
struct FileVersion {
  uint64_t inode = 0;
  uint64_t generation = 0;
  uint64_t size_bytes = 0;
  uint64_t change_time_ns = 0;

  bool operator==(const FileVersion& other) const {
    return inode == other.inode && generation == other.generation &&
           size_bytes == other.size_bytes && change_time_ns == other.change_time_ns;
  }
};

// Reads the version of an open file. EOPNOTSUPP or ENOTTY if the file system has no generations.
Result<FileVersion> VersionOf(int fd, const std::string& path);

// A snapshot that a list was made from.
struct ListedSnapshot {
  // At most change_list::kMaxIdBytes; empty if there is no snapshot.
  std::string id;
  FileVersion file;
  // Both snapshots of a list are of one kind.
  ListedKind kind = ListedKind::kFile;

  bool operator==(const ListedSnapshot& other) const {
    return id == other.id && file == other.file && kind == other.kind;
  }
};

struct ChangeListHead {
  ChangeListKind kind = ChangeListKind::kDelta;
  // Random; the same in every page.
  uint64_t file_id = 0;
  // Number of pages after the head.
  uint64_t pages = 0;
  uint64_t entries = 0;
  // Sum of the sizes of the entries.
  uint64_t entry_bytes = 0;
  ListedSnapshot target;
  // Only deltas have a base.
  ListedSnapshot base;
};

// An entry: bytes [start, end) of the target. The other fields are for maps.
struct ChangeListEntry {
  uint64_t start = 0;
  uint64_t end = 0;
  uint64_t physical = 0;
  // True if the address, which is then 0, does not determine the bytes.
  bool opaque = false;
};

namespace change_list {

inline constexpr size_t kPageBytes = 4096;
inline constexpr char kMagic[16] = "blockdelta list";
inline constexpr uint32_t kVersion = 1;
// All numbers of entries are multiples of this: file systems have no smaller blocks.
inline constexpr uint64_t kUnitBytes = 512;
inline constexpr size_t kMaxIdBytes = 63;
// A bound for what a head may claim: 2^40 pages are 4 PiB.
inline constexpr uint64_t kMaxPages = uint64_t{1} << 40;

using Page = uint8_t[kPageBytes];

// Writes checksum, number and file id, and everything else that a head holds.
void EncodeHead(const ChangeListHead& head, Span<uint8_t> page);
// Fails with LIST_INVALID and a message that names `path`.
Result<ChangeListHead> DecodeHead(const uint8_t* page, const std::string& path);

// Builds one page of entries. REQUIRES: entries in ascending order, without overlaps, in units.
class PageEncoder {
 public:
  PageEncoder(ChangeListKind kind, Span<uint8_t> page) : kind_(kind), page_(page) {}

  bool empty() const { return count_ == 0; }
  // False if the page is full; nothing is added then.
  bool Add(const ChangeListEntry& entry);
  // Completes the page.
  void Finish(uint64_t number, uint64_t file_id);

 private:
  ChangeListKind kind_;
  Span<uint8_t> page_;
  uint32_t count_ = 0;
  size_t used_ = 0;
  uint64_t first_ = 0;
  uint64_t end_ = 0;
  uint64_t physical_end_ = 0;
};

// The range of offsets that a page says it covers.
struct PageRange {
  uint64_t first;
  uint64_t end;
};

// Verifies a page of entries as a whole and returns its range. LIST_INVALID otherwise.
Result<PageRange> CheckPage(const uint8_t* page, const ChangeListHead& head, uint64_t number,
                            const std::string& path);
// Decodes a page that CheckPage() has accepted into `entries`, which it replaces. LIST_INVALID
// unless every entry is not empty, within the target and behind the previous one.
Status DecodePage(const uint8_t* page, const ChangeListHead& head, uint64_t number,
                  const std::string& path, std::vector<ChangeListEntry>* entries);

Status Invalid(const std::string& path, const std::string& what);

}  // namespace change_list
}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_SCAN_CHANGE_LIST_FORMAT_H_
