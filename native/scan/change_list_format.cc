#include "native/scan/change_list_format.h"

#include <linux/fs.h>

#include <cstring>

#include "native/base/crc32c.h"
#include "native/base/posix.h"

namespace blockdelta {

Result<FileVersion> VersionOf(int fd, const std::string& path) {
  Result<struct stat> state = StatFd(fd, path);
  RETURN_IF_ERROR(state);
  // The kernel writes an int although the request is declared with a long.
  long generation = 0;
  RETURN_IF_ERROR(Ioctl(fd, FS_IOC_GETVERSION, &generation, "FS_IOC_GETVERSION", path));
  return FileVersion{state->st_ino, static_cast<uint32_t>(generation),
                     static_cast<uint64_t>(state->st_size),
                     static_cast<uint64_t>(state->st_ctim.tv_sec) * 1'000'000'000 +
                         static_cast<uint64_t>(state->st_ctim.tv_nsec)};
}

namespace change_list {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are stored as they are");

// In every page.
constexpr size_t kChecksum = 0;
constexpr size_t kNumber = 8;
constexpr size_t kFileId = 16;
// In the head.
constexpr size_t kMagicOffset = 24;
constexpr size_t kVersionOffset = 40;
constexpr size_t kKind = 44;
constexpr size_t kPages = 48;
constexpr size_t kEntries = 56;
constexpr size_t kEntryBytes = 64;
constexpr size_t kTarget = 72;
constexpr size_t kIdBytes = kMaxIdBytes + 1;
constexpr size_t kSnapshotBytes = kIdBytes + 4 * sizeof(uint64_t);
constexpr size_t kBase = kTarget + kSnapshotBytes;
constexpr size_t kListedKind = kBase + kSnapshotBytes;
constexpr size_t kHeadEnd = kListedKind + sizeof(uint32_t);
// In pages of entries.
constexpr size_t kCount = 4;
constexpr size_t kUsed = 6;
constexpr size_t kFirst = 24;
constexpr size_t kEnd = 32;
constexpr size_t kBody = 40;
constexpr size_t kBodyBytes = kPageBytes - kBody;
// Three numbers of at most ten bytes.
constexpr size_t kMaxEntryBytes = 30;

template <typename Number>
Number Get(const uint8_t* page, size_t offset) {
  Number value;
  std::memcpy(&value, page + offset, sizeof value);
  return value;
}

template <typename Number>
void Put(uint8_t* page, size_t offset, Number value) {
  std::memcpy(page + offset, &value, sizeof value);
}

uint32_t ChecksumOf(const uint8_t* page) {
  constexpr size_t kSkipped = sizeof(uint32_t);
  return ~Crc32c(~uint32_t{0}, page + kSkipped, kPageBytes - kSkipped);
}

void Seal(uint8_t* page, uint64_t number, uint64_t file_id) {
  Put(page, kNumber, number);
  Put(page, kFileId, file_id);
  Put(page, kChecksum, ChecksumOf(page));
}

Status InvalidPage(const std::string& path, uint64_t number, const std::string& what) {
  return Invalid(path, "page " + std::to_string(number) + " " + what);
}

void PutSnapshot(uint8_t* page, size_t offset, const ListedSnapshot& snapshot) {
  std::memcpy(page + offset, snapshot.id.data(), snapshot.id.size());
  const uint64_t numbers[] = {snapshot.file.inode, snapshot.file.generation,
                              snapshot.file.size_bytes, snapshot.file.change_time_ns};
  std::memcpy(page + offset + kIdBytes, numbers, sizeof numbers);
}

ListedSnapshot GetSnapshot(const uint8_t* page, size_t offset) {
  ListedSnapshot snapshot;
  snapshot.kind = static_cast<ListedKind>(Get<uint32_t>(page, kListedKind));
  const char* const id = reinterpret_cast<const char*>(page + offset);
  snapshot.id.assign(id, strnlen(id, kMaxIdBytes));
  const uint8_t* const numbers = page + offset + kIdBytes;
  snapshot.file = {Get<uint64_t>(numbers, 0), Get<uint64_t>(numbers, 8), Get<uint64_t>(numbers, 16),
                   Get<uint64_t>(numbers, 24)};
  return snapshot;
}

uint8_t* PutVarint(uint8_t* to, uint64_t value) {
  for (; value >= 0x80; value >>= 7) *to++ = static_cast<uint8_t>(value | 0x80);
  *to++ = static_cast<uint8_t>(value);
  return to;
}

// Reads numbers of at most 64 bits within [at, end).
class VarintReader {
 public:
  VarintReader(const uint8_t* at, const uint8_t* end) : at_(at), end_(end) {}

  bool Next(uint64_t* value) {
    uint64_t read = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (at_ == end_) return false;
      const uint8_t byte = *at_++;
      const uint64_t bits = byte & 0x7f;
      if (bits << shift >> shift != bits) return false;
      read |= bits << shift;
      if ((byte & 0x80) == 0) {
        *value = read;
        return true;
      }
    }
    return false;
  }
  bool at_end() const { return at_ == end_; }

 private:
  const uint8_t* at_;
  const uint8_t* const end_;
};

// Encodes small distances in both directions as small numbers.
uint64_t ZigZag(uint64_t from, uint64_t to) {
  const uint64_t distance = to - from;
  return distance << 1 ^ (static_cast<int64_t>(distance) < 0 ? ~uint64_t{0} : 0);
}

uint64_t UnZigZag(uint64_t from, uint64_t code) {
  return from + (code >> 1 ^ ((code & 1) != 0 ? ~uint64_t{0} : 0));
}

bool IsKind(uint32_t kind) {
  return kind == static_cast<uint32_t>(ChangeListKind::kDelta) ||
         kind == static_cast<uint32_t>(ChangeListKind::kAllocated) ||
         kind == static_cast<uint32_t>(ChangeListKind::kMap);
}

}  // namespace

Status Invalid(const std::string& path, const std::string& what) {
  return Status::Scan(kListInvalid, path, "the change list ", " is not used: " + what);
}

void EncodeHead(const ChangeListHead& head, Span<uint8_t> page) {
  std::memset(page.data(), 0, kPageBytes);
  uint8_t* const to = page.data();
  std::memcpy(to + kMagicOffset, kMagic, sizeof kMagic);
  Put(to, kVersionOffset, kVersion);
  Put(to, kKind, static_cast<uint32_t>(head.kind));
  Put(to, kPages, head.pages);
  Put(to, kEntries, head.entries);
  Put(to, kEntryBytes, head.entry_bytes);
  PutSnapshot(to, kTarget, head.target);
  PutSnapshot(to, kBase, head.base);
  Put(to, kListedKind, static_cast<uint32_t>(head.target.kind));
  Seal(to, 0, head.file_id);
}

Result<ChangeListHead> DecodeHead(const uint8_t* page, const std::string& path) {
  if (Get<uint32_t>(page, kChecksum) != ChecksumOf(page) || Get<uint64_t>(page, kNumber) != 0) {
    return InvalidPage(path, 0, "has a wrong checksum or number");
  }
  if (std::memcmp(page + kMagicOffset, kMagic, sizeof kMagic) != 0) {
    return Invalid(path, "it is another kind of file");
  }
  const auto version = Get<uint32_t>(page, kVersionOffset);
  if (version != kVersion) {
    return Invalid(path, "it has version " + std::to_string(version) + " of the format, not " +
                             std::to_string(kVersion));
  }
  const auto kind = Get<uint32_t>(page, kKind);
  if (!IsKind(kind)) return Invalid(path, "it has the unknown kind " + std::to_string(kind));
  const auto listed = Get<uint32_t>(page, kListedKind);
  if (listed > static_cast<uint32_t>(ListedKind::kThinDevice)) {
    return Invalid(path, "it is of an unknown kind of snapshots, " + std::to_string(listed));
  }
  for (size_t i = kHeadEnd; i < kPageBytes; i++) {
    if (page[i] != 0) return InvalidPage(path, 0, "has data where this version has none");
  }
  ChangeListHead head;
  head.kind = static_cast<ChangeListKind>(kind);
  head.file_id = Get<uint64_t>(page, kFileId);
  head.pages = Get<uint64_t>(page, kPages);
  head.entries = Get<uint64_t>(page, kEntries);
  head.entry_bytes = Get<uint64_t>(page, kEntryBytes);
  head.target = GetSnapshot(page, kTarget);
  head.base = GetSnapshot(page, kBase);
  if (head.pages > kMaxPages || head.entry_bytes > head.target.file.size_bytes ||
      (head.pages == 0) != (head.entries == 0)) {
    return InvalidPage(path, 0, "has counts that contradict each other");
  }
  if (head.target.id.empty() || head.base.id.empty() == (head.kind == ChangeListKind::kDelta)) {
    return InvalidPage(path, 0, "does not name the snapshots that its kind needs");
  }
  for (const ListedSnapshot* snapshot : {&head.target, &head.base}) {
    if (snapshot->kind == ListedKind::kFile) continue;
    if (snapshot->file.inode == 0 && snapshot->file.change_time_ns == 0) continue;
    return InvalidPage(path, 0, "has the inode or the change time of a device");
  }
  return head;
}

bool PageEncoder::Add(const ChangeListEntry& entry) {
  if (kBodyBytes - used_ < kMaxEntryBytes) return false;
  if (count_ == 0) first_ = end_ = entry.start;
  uint8_t* const body = page_.data() + kBody;
  uint8_t* to = PutVarint(body + used_, (entry.start - end_) / kUnitBytes);
  const uint64_t length = (entry.end - entry.start) / kUnitBytes;
  if (kind_ == ChangeListKind::kMap) {
    to = PutVarint(to, length << 1 | (entry.opaque ? 1 : 0));
    if (!entry.opaque) {
      const uint64_t physical = entry.physical / kUnitBytes;
      to = PutVarint(to, ZigZag(physical_end_, physical));
      physical_end_ = physical + length;
    }
  } else {
    to = PutVarint(to, length);
  }
  used_ = static_cast<size_t>(to - body);
  end_ = entry.end;
  count_++;
  return true;
}

void PageEncoder::Finish(uint64_t number, uint64_t file_id) {
  uint8_t* const to = page_.data();
  std::memset(to + kBody + used_, 0, kBodyBytes - used_);
  Put(to, kCount, static_cast<uint16_t>(count_));
  Put(to, kUsed, static_cast<uint16_t>(used_));
  Put(to, kFirst, first_);
  Put(to, kEnd, end_);
  Seal(to, number, file_id);
}

Result<PageRange> CheckPage(const uint8_t* page, const ChangeListHead& head, uint64_t number,
                            const std::string& path) {
  if (Get<uint32_t>(page, kChecksum) != ChecksumOf(page)) {
    return InvalidPage(path, number, "has a wrong checksum");
  }
  if (Get<uint64_t>(page, kNumber) != number || Get<uint64_t>(page, kFileId) != head.file_id) {
    return InvalidPage(path, number, "belongs to another place or file");
  }
  const PageRange range = {Get<uint64_t>(page, kFirst), Get<uint64_t>(page, kEnd)};
  if (range.first >= range.end || range.end > head.target.file.size_bytes ||
      Get<uint16_t>(page, kCount) == 0 || Get<uint16_t>(page, kUsed) > kBodyBytes) {
    return InvalidPage(path, number, "has a range or a count that cannot be");
  }
  return range;
}

Status DecodePage(const uint8_t* page, const ChangeListHead& head, uint64_t number,
                  const std::string& path, std::vector<ChangeListEntry>* entries) {
  const bool is_map = head.kind == ChangeListKind::kMap;
  const uint64_t page_end = Get<uint64_t>(page, kEnd);
  const uint32_t count = Get<uint16_t>(page, kCount);
  const uint8_t* const body = page + kBody;
  VarintReader reader(body, body + Get<uint16_t>(page, kUsed));
  entries->clear();
  uint64_t position = Get<uint64_t>(page, kFirst);
  uint64_t physical_end = 0;
  const auto wrong = [&] { return InvalidPage(path, number, "has entries that cannot be"); };
  for (uint32_t i = 0; i < count; i++) {
    uint64_t gap = 0;
    uint64_t length = 0;
    uint64_t distance = 0;
    if (!reader.Next(&gap) || !reader.Next(&length)) return wrong();
    ChangeListEntry entry;
    if (is_map) {
      entry.opaque = (length & 1) != 0;
      length >>= 1;
      if (!entry.opaque && !reader.Next(&distance)) return wrong();
    }
    const uint64_t left = page_end - position;
    if (gap > left / kUnitBytes || (i == 0 && gap != 0)) return wrong();
    entry.start = position + gap * kUnitBytes;
    const uint64_t possible = page_end - entry.start;
    if (length == 0 || length > possible / kUnitBytes) return wrong();
    entry.end = entry.start + length * kUnitBytes;
    if (is_map && !entry.opaque) {
      const uint64_t physical = UnZigZag(physical_end, distance);
      constexpr uint64_t kMaxUnits = UINT64_MAX / kUnitBytes;
      if (physical > kMaxUnits || length > kMaxUnits - physical) return wrong();
      entry.physical = physical * kUnitBytes;
      physical_end = physical + length;
    }
    position = entry.end;
    entries->push_back(entry);
  }
  if (position != page_end || !reader.at_end()) return wrong();
  return Status();
}

}  // namespace change_list
}  // namespace blockdelta
