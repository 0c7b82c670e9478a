#include "native/device/write_counters.h"

#include <sys/sysmacros.h>

#include <charconv>
#include <vector>

namespace blockdelta {
namespace {

// Indexes of fields; see Documentation/block/stat.rst of the kernel.
constexpr size_t kWrittenSectors = 6;
constexpr size_t kFieldsOfOldKernels = 11;
constexpr size_t kDiscardedSectors = 13;
constexpr size_t kMaxFields = 64;
constexpr size_t kMaxBytes = 4096;
constexpr std::string_view kSpace = " \t\n";

std::optional<uint64_t> ParseNumber(std::string_view word) {
  uint64_t number = 0;
  const char* const end = word.data() + word.size();
  const auto [stopped, error] = std::from_chars(word.data(), end, number);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return number;
}

Result<std::string> ReadAttribute(const std::string& path) {
  Result<UniqueFd> fd = OpenPath(path, O_RDONLY);
  RETURN_IF_ERROR(fd);
  std::string text(kMaxBytes, '\0');
  const ssize_t length = RetryInterrupted([&] { return read(fd->get(), &text[0], text.size()); });
  if (length == -1) return Status::Errno(errno, "read", path);
  text.resize(static_cast<size_t>(length));
  return text;
}

std::string AttributesOf(dev_t device) {
  return "/sys/dev/block/" + std::to_string(major(device)) + ":" + std::to_string(minor(device)) +
         "/";
}

}  // namespace

std::optional<WriteCounters> ParseBlockStat(std::string_view text) {
  std::vector<uint64_t> fields;
  for (size_t at = text.find_first_not_of(kSpace); at != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kSpace, at), text.size());
    const std::optional<uint64_t> number = ParseNumber(text.substr(at, end - at));
    if (!number.has_value() || fields.size() == kMaxFields) return std::nullopt;
    fields.push_back(*number);
    at = text.find_first_not_of(kSpace, end);
  }
  if (fields.size() < kFieldsOfOldKernels) return std::nullopt;
  const bool has_discards = fields.size() > kDiscardedSectors;
  return WriteCounters{fields[kWrittenSectors], has_discards ? fields[kDiscardedSectors] : 0};
}

Result<std::optional<WriteCounters>> ReadWriteCounters(dev_t device) {
  const std::string directory = AttributesOf(device);
  Result<std::string> counts = ReadAttribute(directory + "queue/iostats");
  RETURN_IF_ERROR(counts);
  if (*counts != "1\n") return std::optional<WriteCounters>();
  Result<std::string> text = ReadAttribute(directory + "stat");
  RETURN_IF_ERROR(text);
  const std::optional<WriteCounters> counters = ParseBlockStat(*text);
  if (counters.has_value()) return counters;
  return Status::Errno(EBADMSG, "read", directory + "stat", "unexpected format");
}

Result<bool> HasWriteInFlight(dev_t device) {
  const std::string path = AttributesOf(device) + "inflight";
  Result<std::string> text = ReadAttribute(path);
  RETURN_IF_ERROR(text);
  // The file has two numbers, of reads and of writes.
  const size_t last = text->find_last_of("0123456789");
  const size_t before = text->find_last_of(kSpace, last);
  if (last == std::string::npos || before == std::string::npos) {
    return Status::Errno(EBADMSG, "read", path, "unexpected format");
  }
  return text->substr(before + 1, last - before) != "0";
}

}  // namespace blockdelta
