#include "native/device/dm_status.h"

#include <vector>

namespace blockdelta {
namespace {

// Device numbers as the kernel keeps them: 12 bits and 20 bits.
constexpr uint64_t kMaxMajor = (1u << 12) - 1;
constexpr uint64_t kMaxMinor = (1u << 20) - 1;
// 255 bitmaps of 16,320 blocks each; the kernel ignores the rest of a larger device.
constexpr uint64_t kMaxMetadataBlocks = 255 * 16320;
// Data blocks have at least 128 sectors.
constexpr uint64_t kMaxDataBlocks = kMaxSectors / 128;

// Reads the words of a line one by one. Records the first invalid word and keeps reading empty
// values, so that a parser reads everything and then checks ok() once.
class Words {
 public:
  Words(std::string_view line, const char* what) : line_(line), what_(what) {
    std::string_view rest = line;
    for (;;) {
      const size_t begin = rest.find_first_not_of(' ');
      if (begin == std::string_view::npos) return;
      rest.remove_prefix(begin);
      const std::string_view word = rest.substr(0, rest.find(' '));
      words_.push_back(word);
      rest.remove_prefix(word.size());
    }
  }

  bool IsSingle(std::string_view word) const { return words_.size() == 1 && words_[0] == word; }
  bool AtEnd() const { return next_ == words_.size(); }

  std::string_view Take(const char* name) {
    if (next_ < words_.size()) return words_[next_++];
    Reject(name, "is missing");
    return std::string_view();
  }

  uint64_t Number(const char* name, uint64_t max) { return Parse(Take(name), name, max); }

  // "17/4096", the first not above the second.
  void Fraction(const char* name, uint64_t max, uint64_t* part, uint64_t* whole) {
    const std::string_view word = Take(name);
    const size_t slash = word.find('/');
    if (slash == std::string_view::npos) return Reject(name, "is not a fraction");
    *part = Parse(word.substr(0, slash), name, max);
    *whole = Parse(word.substr(slash + 1), name, max);
    if (*part > *whole) Reject(name, "exceeds the total");
  }

  std::optional<uint64_t> NumberOrDash(const char* name, uint64_t max) {
    if (next_ < words_.size() && words_[next_] == "-") {
      next_++;
      return std::nullopt;
    }
    return Number(name, max);
  }

  // The index of the next word in `choices`.
  template <size_t kCount>
  size_t OneOf(const char* name, const std::string_view (&choices)[kCount]) {
    const std::string_view word = Take(name);
    for (size_t i = 0; i < kCount; i++) {
      if (word == choices[i]) return i;
    }
    Reject(name, "is not a known word");
    return 0;
  }

  uint64_t Parse(std::string_view digits, const char* name, uint64_t max) {
    uint64_t value = 0;
    bool is_good = !digits.empty() && (digits[0] != '0' || digits.size() == 1);
    for (const char digit : digits) {
      is_good = is_good && digit >= '0' && digit <= '9';
      if (!is_good) break;
      const uint64_t units = static_cast<uint64_t>(digit - '0');
      is_good = value <= (max - units) / 10 && units <= max;
      value = value * 10 + units;
    }
    if (is_good) return value;
    Reject(name, "is not a number, or too large");
    return 0;
  }

  void ExpectEnd() {
    if (!AtEnd()) Reject("the line", "has more words than expected");
  }

  void Reject(const char* name, const char* problem) {
    if (problem_.empty()) problem_ = std::string(name) + " " + problem;
  }

  bool ok() const { return problem_.empty(); }
  Status TakeStatus() const {
    constexpr size_t kMaxShown = 200;
    return Status::Reason(
        kDmStatusInvalid, what_, "",
        std::string(what_) + " '" + std::string(line_.substr(0, kMaxShown)) + "': " + problem_);
  }

 private:
  std::string_view line_;
  const char* what_;
  std::vector<std::string_view> words_;
  size_t next_ = 0;
  std::string problem_;
};

constexpr std::string_view kModes[] = {"rw", "ro", "out_of_data_space"};
constexpr ThinPoolMode kModeOf[] = {ThinPoolMode::kReadWrite, ThinPoolMode::kReadOnly,
                                    ThinPoolMode::kOutOfDataSpace};
constexpr std::string_view kDiscards[] = {"discard_passdown", "no_discard_passdown",
                                          "ignore_discard"};
constexpr ThinPoolDiscards kDiscardsOf[] = {
    ThinPoolDiscards::kPassdown, ThinPoolDiscards::kNoPassdown, ThinPoolDiscards::kIgnore};
constexpr std::string_view kWhenFull[] = {"queue_if_no_space", "error_if_no_space"};
constexpr std::string_view kNeedsCheck[] = {"-", "needs_check"};

}  // namespace

const char* NameOf(ThinPoolMode mode) {
  switch (mode) {
    case ThinPoolMode::kReadWrite:
      return "rw";
    case ThinPoolMode::kReadOnly:
      return "ro";
    case ThinPoolMode::kOutOfDataSpace:
      return "out_of_data_space";
    case ThinPoolMode::kFail:
      return "Fail";
    case ThinPoolMode::kError:
      break;
  }
  return "Error";
}

Result<ThinPoolStatus> ParseThinPoolStatus(std::string_view line) {
  Words words(line, "thin-pool status");
  ThinPoolStatus status;
  if (words.IsSingle("Fail")) return status;
  status.mode = ThinPoolMode::kError;
  if (words.IsSingle("Error")) return status;
  status.transaction_id = words.Number("the transaction id", UINT64_MAX);
  words.Fraction("the used metadata", kMaxMetadataBlocks, &status.used_metadata_blocks,
                 &status.total_metadata_blocks);
  words.Fraction("the used data", kMaxDataBlocks, &status.used_data_blocks,
                 &status.total_data_blocks);
  status.held_root = words.NumberOrDash("the held root", kMaxMetadataBlocks);
  status.mode = kModeOf[words.OneOf("the mode", kModes)];
  status.discards = kDiscardsOf[words.OneOf("the discard mode", kDiscards)];
  status.errors_when_full = words.OneOf("the mode without space", kWhenFull) == 1;
  status.needs_check = words.OneOf("the needs_check flag", kNeedsCheck) == 1;
  status.metadata_low_water_blocks =
      words.Number("the metadata low water mark", kMaxMetadataBlocks);
  if (status.held_root == uint64_t{0}) words.Reject("the held root", "is the superblock itself");
  if (!words.ok()) return words.TakeStatus();
  return status;
}

Result<ThinTable> ParseThinTable(std::string_view line) {
  Words words(line, "thin table");
  ThinTable table;
  const std::string_view pool = words.Take("the pool");
  const size_t colon = pool.find(':');
  if (colon == std::string_view::npos) {
    words.Reject("the pool", "is not a device number");
  } else {
    table.pool_major =
        static_cast<uint32_t>(words.Parse(pool.substr(0, colon), "the pool", kMaxMajor));
    table.pool_minor =
        static_cast<uint32_t>(words.Parse(pool.substr(colon + 1), "the pool", kMaxMinor));
  }
  table.device_id = static_cast<uint32_t>(words.Number("the device id", kMaxThinId));
  if (!words.AtEnd()) words.Take("the external origin");
  words.ExpectEnd();
  if (!words.ok()) return words.TakeStatus();
  return table;
}

}  // namespace blockdelta
