// Fuzzes what reads device-mapper's answers: status and table lines, chains of targets and names.
//
// What is accepted must say the same when it is written again.
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "native/device/dm_buffer.h"
#include "native/device/dm_status.h"
#include "test/fuzz/fuzz_input.h"

namespace blockdelta::test {
namespace {

// With single blanks between the words and none at the ends.
std::string Plain(std::string_view line) {
  std::string plain;
  for (size_t at = 0; (at = line.find_first_not_of(' ', at)) != std::string_view::npos;) {
    const std::string_view word = line.substr(at, line.find(' ', at) - at);
    if (!plain.empty()) plain += ' ';
    plain += word;
    at += word.size();
  }
  return plain;
}

bool BeginsWith(const std::string& text, const std::string& beginning) {
  return text.compare(0, beginning.size(), beginning) == 0 &&
         (text.size() == beginning.size() || text[beginning.size()] == ' ');
}

std::string Written(const ThinPoolStatus& status) {
  if (status.mode == ThinPoolMode::kFail || status.mode == ThinPoolMode::kError) {
    return NameOf(status.mode);
  }
  constexpr const char* kDiscards[] = {"discard_passdown", "no_discard_passdown", "ignore_discard"};
  std::ostringstream line;
  line << status.transaction_id << ' ' << status.used_metadata_blocks << '/'
       << status.total_metadata_blocks << ' ' << status.used_data_blocks << '/'
       << status.total_data_blocks << ' '
       << (status.held_root.has_value() ? std::to_string(*status.held_root) : "-") << ' '
       << NameOf(status.mode) << ' ' << kDiscards[static_cast<int>(status.discards)] << ' '
       << (status.errors_when_full ? "error_if_no_space" : "queue_if_no_space") << ' '
       << (status.needs_check ? "needs_check" : "-") << ' ' << status.metadata_low_water_blocks;
  return line.str();
}

void FuzzLines(std::string_view line) {
  const std::string plain = Plain(line);
  Result<ThinPoolStatus> pool = ParseThinPoolStatus(line);
  if (pool.ok()) {
    Check(BeginsWith(plain, Written(*pool)));
    Check(pool->used_metadata_blocks <= pool->total_metadata_blocks);
    Check(pool->used_data_blocks <= pool->total_data_blocks);
  } else {
    Check(pool.status().Is(kDmStatusInvalid));
  }
  Result<ThinTable> table = ParseThinTable(line);
  if (table.ok()) {
    Check(table->device_id <= kMaxThinId);
    Check(BeginsWith(plain, std::to_string(table->pool_major) + ":" +
                                std::to_string(table->pool_minor) + " " +
                                std::to_string(table->device_id)));
  }
}

void FuzzTargets(Span<const uint8_t> bytes, uint32_t count) {
  Result<std::vector<DmTarget>> targets = ParseTargets(bytes, count);
  if (!targets.ok()) return Check(targets.status().Is(kDmStatusInvalid));
  Check(targets->size() == count);
  uint64_t end = 0;
  for (const DmTarget& target : *targets) {
    Check(target.start_sectors == end && target.length_sectors > 0);
    Check(!target.type.empty() && target.type.size() <= kMaxTargetType);
    Check(target.text.size() < bytes.size());
    end += target.length_sectors;
  }
  Check(end <= kMaxSectors);
  const std::vector<uint8_t> again = EncodeTargets(*targets);
  Check(again.size() % 8 == 0);
  if (count != 1) return;
  Result<std::vector<DmTarget>> same = ParseTargets({again.data(), again.size()}, 1);
  Check(same.ok() && (*same)[0].type == (*targets)[0].type &&
        (*same)[0].text == (*targets)[0].text);
}

void FuzzNames(Result<std::vector<std::string>> names, size_t size) {
  if (!names.ok()) return Check(names.status().Is(kDmStatusInvalid));
  size_t sum = 0;
  for (const std::string& name : *names) {
    Check(name.find('\0') == std::string::npos);
    sum += name.size() + 1;
  }
  Check(sum <= size);
}

}  // namespace

// The first byte chooses the reader, and for targets their number.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  // A copy of its own: a read behind its end is found.
  const std::vector<uint8_t> bytes(data + 1, data + size);
  const Span<const uint8_t> span(bytes.data(), bytes.size());
  switch (data[0] & 3) {
    case 0:
      FuzzLines(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
      break;
    case 1:
      FuzzTargets(span, data[0] >> 2);
      break;
    case 2:
      FuzzNames(ParseDeviceNames(span), bytes.size());
      break;
    default:
      FuzzNames(ParseTargetTypes(span), bytes.size());
  }
  return 0;
}

}  // namespace blockdelta::test
