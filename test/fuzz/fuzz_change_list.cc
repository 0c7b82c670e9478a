// Fuzzes the readers of change lists and stored maps: any head and any pages, with the checksums
// they would have, so that the numbers behind a checksum are what is tested.
//
// Files are assembled and read back from the tables of docs/engineering/change-lists.md, without
// the code under test. A reader either refuses a file or gives exactly what the slow reader gives.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "native/base/crc32c.h"
#include "native/base/posix.h"
#include "test/fuzz/fuzz_input.h"
#include "test/native/chunks.h"

namespace blockdelta::test {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kBody = 40;
constexpr uint64_t kUnit = 512;
constexpr uint64_t kFileId = 0x1122334455667788;
constexpr size_t kMaxFiles = 3;
constexpr size_t kMaxPages = 4;
constexpr uint32_t kDelta = 1;
constexpr uint32_t kMap = 3;

using Bytes = std::vector<uint8_t>;
using Wide = unsigned __int128;

template <typename Number>
void Put(Bytes* file, size_t at, Number value) {
  std::memcpy(file->data() + at, &value, sizeof value);
}

template <typename Number>
Number Get(const uint8_t* at) {
  Number value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

void Seal(Bytes* file, size_t number) {
  const size_t at = number * kPage;
  Put(file, at + 8, static_cast<uint64_t>(number));
  Put(file, at + 16, kFileId);
  Put(file, at, ~Crc32c(~uint32_t{0}, file->data() + at + 4, kPage - 4));
}

// A file as it is on disk, and the numbers of its head.
struct Image {
  Bytes bytes;
  uint32_t kind = 0;
  uint64_t pages = 0;
  uint64_t entries = 0;
  uint64_t entry_bytes = 0;
  // Files or thin devices.
  uint32_t listed = 0;
};

// Whether there is a number of at most 64 bits; anyway, what there is of one.
bool ReadVarint(const uint8_t** at, const uint8_t* stop, uint64_t* value) {
  Wide read = 0;
  bool is_whole = false;
  for (unsigned shift = 0; shift < 70 && *at < stop && !is_whole; shift += 7) {
    const uint8_t byte = *(*at)++;
    read |= static_cast<Wide>(byte & 0x7F) << shift;
    is_whole = (byte & 0x80) == 0;
  }
  *value = static_cast<uint64_t>(read);
  return is_whole && read <= UINT64_MAX;
}

// The header of a page mostly fits the page's entries: `end` follows from them.
uint64_t EndOf(const uint8_t* at, size_t used, uint64_t first, uint64_t count, bool is_map) {
  const uint8_t* const stop = at + used;
  uint64_t end = first;
  for (uint64_t i = 0; i < count; i++) {
    uint64_t gap = 0;
    uint64_t length = 0;
    ReadVarint(&at, stop, &gap);
    ReadVarint(&at, stop, &length);
    end += (gap + (is_map ? length >> 1 : length)) * kUnit;
    uint64_t code = 0;
    if (is_map && (length & 1) == 0) ReadVarint(&at, stop, &code);
  }
  return end;
}

Image ReadImage(FuzzInput* input, uint32_t kind, uint64_t size) {
  Image image;
  image.kind = kind;
  const size_t pages = input->Byte() % (kMaxPages + 1);
  image.bytes.assign((pages + 1) * kPage, 0);
  uint64_t previous_end = 0;
  for (size_t page = 1; page <= pages; page++) {
    const size_t at = page * kPage;
    const uint64_t head = input->Byte();
    const uint64_t count = input->Byte() % 32;
    const size_t used = input->Byte();
    const uint64_t first = (head & 1) != 0 ? input->Number() : previous_end + input->Byte() * kUnit;
    for (size_t i = 0; i < used; i++) image.bytes[at + kBody + i] = input->Byte();
    const uint64_t fitting =
        EndOf(image.bytes.data() + at + kBody, used, first, count, kind == kMap);
    previous_end = (head & 2) != 0 ? input->Number() : fitting;
    Put(&image.bytes, at + 4, static_cast<uint16_t>(count));
    Put(&image.bytes, at + 6, static_cast<uint16_t>((head & 4) != 0 ? input->Number() : used));
    Put(&image.bytes, at + 24, first);
    Put(&image.bytes, at + 32, previous_end);
    Seal(&image.bytes, page);
  }
  const uint64_t head = input->Byte();
  image.pages = (head & 1) != 0 ? input->Number() : pages;
  image.entries = (head & 2) != 0 ? input->Number() : pages;
  image.entry_bytes = (head & 4) != 0 ? input->Number() : 0;
  std::memcpy(image.bytes.data() + 24, "blockdelta list", 16);
  Put(&image.bytes, 40, uint32_t{1});
  Put(&image.bytes, 44, kind);
  Put(&image.bytes, 48, image.pages);
  Put(&image.bytes, 56, image.entries);
  Put(&image.bytes, 64, image.entry_bytes);
  image.bytes[72] = 't';
  Put(&image.bytes, 72 + 64 + 16, size);
  if (kind == kDelta) image.bytes[168] = 'b';
  image.listed = static_cast<uint32_t>((head & 8) != 0 ? input->Number() : head >> 4 & 1);
  Put(&image.bytes, 264, image.listed);
  Seal(&image.bytes, 0);
  return image;
}

struct Entry {
  uint64_t start;
  uint64_t end;
};

// The slow reader of one page. Numbers of 128 bits cannot wrap. False: the page is invalid.
bool ReadPage(const uint8_t* page, bool is_map, uint64_t size, uint64_t* previous_end,
              std::vector<Entry>* entries) {
  const auto count = Get<uint16_t>(page + 4);
  const auto used = Get<uint16_t>(page + 6);
  const auto first = Get<uint64_t>(page + 24);
  const auto end = Get<uint64_t>(page + 32);
  if (count == 0 || used > kPage - kBody || first < *previous_end || end > size) return false;
  const uint8_t* at = page + kBody;
  const uint8_t* const stop = at + used;
  Wide position = first;
  uint64_t physical_end = 0;
  for (unsigned i = 0; i < count; i++) {
    uint64_t gap = 0;
    uint64_t length = 0;
    if (!ReadVarint(&at, stop, &gap) || !ReadVarint(&at, stop, &length)) return false;
    const bool has_address = is_map && (length & 1) == 0;
    if (is_map) length >>= 1;
    if (has_address) {
      uint64_t code = 0;
      if (!ReadVarint(&at, stop, &code)) return false;
      const uint64_t units = physical_end + ((code & 1) != 0 ? ~(code >> 1) : code >> 1);
      if ((Wide{units} + length) * kUnit > UINT64_MAX) return false;
      physical_end = units + length;
    }
    const Wide start = position + Wide{gap} * kUnit;
    position = start + Wide{length} * kUnit;
    if ((i == 0 && gap != 0) || length == 0 || position > end) return false;
    entries->push_back({static_cast<uint64_t>(start), static_cast<uint64_t>(position)});
  }
  *previous_end = end;
  return at == stop && position == end;
}

bool IsHeadValid(const Image& image, uint64_t size) {
  return image.pages == image.bytes.size() / kPage - 1 && image.entry_bytes <= size &&
         image.listed <= 1 && (image.pages == 0) == (image.entries == 0);
}

// All entries; nothing if a page is invalid.
std::optional<std::vector<Entry>> SlowEntries(const Image& image, uint64_t size) {
  std::vector<Entry> entries;
  uint64_t previous_end = 0;
  for (size_t at = kPage; at < image.bytes.size(); at += kPage) {
    const uint8_t* const page = image.bytes.data() + at;
    if (!ReadPage(page, image.kind == kMap, size, &previous_end, &entries)) return std::nullopt;
  }
  return entries;
}

// A file of this process that is deleted when it exits.
class Scratch {
 public:
  static const std::string& Path(size_t number) {
    static Scratch scratch;
    return scratch.paths_[number];
  }
  ~Scratch() {
    for (const std::string& path : paths_) unlink(path.c_str());
  }

 private:
  Scratch() {
    const char* const directory = std::getenv("TMPDIR");
    for (std::string& path : paths_) {
      path = std::string(directory == nullptr ? "/tmp" : directory) + "/fuzz-change-list-XXXXXX";
      const int fd = mkstemp(path.data());
      Check(fd >= 0);
      close(fd);
    }
  }

  std::array<std::string, kMaxFiles> paths_;
};

std::optional<ChangeListFile> Open(size_t number, const Image& image, uint64_t size) {
  const std::string& path = Scratch::Path(number);
  // Without O_TRUNC, after which ext4 writes a file back when it is closed.
  Result<UniqueFd> fd = OpenPath(path, O_WRONLY);
  Check(fd.ok());
  Check(pwrite(fd->get(), image.bytes.data(), image.bytes.size(), 0) ==
        static_cast<ssize_t>(image.bytes.size()));
  Check(TruncateFd(fd->get(), image.bytes.size(), path).ok());
  Result<ChangeListFile> file = ChangeListFile::Open(path);
  Check(file.ok() == IsHeadValid(image, size));
  if (file.ok()) return std::move(*file);
  Check(file.status().Is(kListInvalid));
  return std::nullopt;
}

// One range for entries that overlap or touch.
std::vector<Range> Joined(std::vector<Entry> entries, uint64_t offset, uint64_t size) {
  std::sort(entries.begin(), entries.end(),
            [](const Entry& left, const Entry& right) { return left.start < right.start; });
  std::vector<Range> ranges;
  for (const Entry& entry : entries) {
    const uint64_t start = std::max(entry.start, offset);
    const uint64_t end = std::min(entry.end, size);
    if (start >= end) continue;
    if (!ranges.empty() && start <= ranges.back().offset + ranges.back().size) {
      Range* const last = &ranges.back();
      last->size = std::max(last->offset + last->size, end) - last->offset;
    } else {
      ranges.push_back({start, end - start});
    }
  }
  return ranges;
}

void Run(FuzzInput* input) {
  const uint64_t head = input->Byte();
  const bool is_map = (head & 1) != 0;
  const uint64_t size = (head & 2) != 0 ? input->Number() & INT64_MAX : uint64_t{1} << 40;
  FillLimits limits;
  limits.max_entries = 1 + (head >> 2 & 7);
  limits.max_entries_per_message = 1 + (head >> 5 & 3);
  limits.max_extents = 1 + input->Byte();
  limits.send_empty = (head & 0x80) != 0;
  const uint64_t offset = std::min(input->Number() * kUnit, size);
  const size_t count = is_map ? 1 : 1 + input->Byte() % kMaxFiles;
  std::vector<ChangeListFile> files;
  std::vector<Entry> expected;
  bool is_valid = true;
  for (size_t i = 0; i < count; i++) {
    const Image image = ReadImage(input, is_map ? kMap : kDelta, size);
    std::optional<ChangeListFile> file = Open(i, image, size);
    if (!file.has_value()) return;
    files.push_back(std::move(*file));
    const auto entries = SlowEntries(image, size);
    is_valid = is_valid && entries.has_value();
    if (is_valid) expected.insert(expected.end(), entries->begin(), entries->end());
  }
  const auto fill = [&](const FillLimits& each, Span<uint8_t> buffer) {
    if (!is_map) return FillFromListFiles(files, size, each, buffer);
    StoredMapSource source(&files.front());
    return FillFromMaps(&source, nullptr, size, each, buffer);
  };
  Result<Scan> scan = RunScan(fill, size, offset, 4096, [&] { return limits; });
  Check(scan.ok() || scan.status().Is(kListInvalid));
  // A call reads the pages from its offset on, so only a single one from the start reads all.
  if (!is_valid) {
    Check(offset > 0 || !scan.ok() || scan->calls > 1);
    return;
  }
  Check(scan.ok() && scan->ranges == Joined(std::move(expected), offset, size));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  Run(&input);
  return 0;
}

}  // namespace blockdelta::test
