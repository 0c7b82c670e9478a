#include "native/device/dm_buffer.h"

#include <linux/dm-ioctl.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "native/device/dm_status.h"

namespace blockdelta {
namespace {

static_assert(sizeof(struct dm_target_spec) == 40, "ABI of DM_TABLE_LOAD");
static_assert(sizeof(struct dm_target_msg) == 8, "ABI of DM_TARGET_MSG");
static_assert(offsetof(struct dm_name_list, name) == 12, "ABI of DM_LIST_DEVICES");
static_assert(offsetof(struct dm_target_versions, name) == 16, "ABI of DM_LIST_VERSIONS");
static_assert(kMaxTargetType + 1 == DM_MAX_TYPE_NAME, "ABI of DM_TABLE_LOAD");

constexpr size_t kAlignment = 8;

Status Invalid(const char* call, const char* problem) {
  return Status::Reason(kDmStatusInvalid, call, "", std::string(call) + ": " + problem);
}

Span<const uint8_t> From(Span<const uint8_t> bytes, size_t offset) {
  return Span<const uint8_t>(bytes.data() + offset, bytes.size() - offset);
}

// The NUL-terminated text at the start of the bytes; nothing if it is not terminated.
std::optional<std::string> TextAt(Span<const uint8_t> bytes) {
  const auto* end = std::find(bytes.begin(), bytes.end(), uint8_t{0});
  if (end == bytes.end()) return std::nullopt;
  return std::string(bytes.begin(), end);
}

// A chain of records. The u32 at offset kNext of a record is the distance to the next record, 0 in
// the last one; its text starts at offset kText.
template <size_t kNext, size_t kText>
Result<std::vector<std::string>> ParseChain(Span<const uint8_t> bytes, const char* call) {
  std::vector<std::string> texts;
  size_t at = 0;
  for (;;) {
    if (bytes.size() - at < kText) return Invalid(call, "a record is truncated");
    const std::optional<std::string> text = TextAt(From(bytes, at + kText));
    if (!text.has_value()) return Invalid(call, "a name is not terminated");
    texts.push_back(*text);
    uint32_t next = 0;
    std::memcpy(&next, bytes.data() + at + kNext, sizeof next);
    if (next == 0) return texts;
    if (next <= kText + text->size() || next > bytes.size() - at) {
      return Invalid(call, "the offset of the next record is out of range");
    }
    at += next;
  }
}

Result<DmTarget> ParseTarget(Span<const uint8_t> bytes, uint64_t start, uint32_t* next) {
  constexpr char kCall[] = "DM_TABLE_STATUS";
  struct dm_target_spec spec;
  if (bytes.size() < sizeof spec) return Invalid(kCall, "a target is truncated");
  std::memcpy(&spec, bytes.data(), sizeof spec);
  if (spec.sector_start != start) return Invalid(kCall, "the targets are not contiguous");
  if (spec.length == 0 || spec.length > kMaxSectors - start) {
    return Invalid(kCall, "the length of a target is out of range");
  }
  const size_t type_length = strnlen(spec.target_type, sizeof spec.target_type);
  if (type_length == 0 || type_length == sizeof spec.target_type) {
    return Invalid(kCall, "a target has no type");
  }
  const std::optional<std::string> text = TextAt(From(bytes, sizeof spec));
  if (!text.has_value()) return Invalid(kCall, "the text of a target is not terminated");
  *next = spec.next;
  return DmTarget{std::string(spec.target_type, type_length), spec.sector_start, spec.length,
                  *text};
}

}  // namespace

Result<std::vector<DmTarget>> ParseTargets(Span<const uint8_t> bytes, uint32_t count) {
  std::vector<DmTarget> targets;
  size_t at = 0;
  uint64_t end_sectors = 0;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t next = 0;
    Result<DmTarget> target = ParseTarget(From(bytes, at), end_sectors, &next);
    RETURN_IF_ERROR(target);
    end_sectors += target->length_sectors;
    const size_t end = at + sizeof(struct dm_target_spec) + target->text.size() + 1;
    targets.push_back(std::move(*target));
    if (i + 1 == count) break;
    // In the answer of DM_TABLE_STATUS, `next` is relative to the first target.
    if (next < end || next > bytes.size()) {
      return Invalid("DM_TABLE_STATUS", "the offset of the next target is out of range");
    }
    at = next;
  }
  // thin-pool appends a space after its features that no loaded table contained.
  for (DmTarget& target : targets) target.text.resize(target.text.find_last_not_of(' ') + 1);
  return targets;
}

std::vector<uint8_t> EncodeTargets(const std::vector<DmTarget>& targets) {
  std::vector<uint8_t> bytes;
  for (const DmTarget& target : targets) {
    struct dm_target_spec spec = {};
    const size_t unaligned = sizeof spec + target.text.size() + 1;
    const size_t size = (unaligned + kAlignment - 1) / kAlignment * kAlignment;
    spec.sector_start = target.start_sectors;
    spec.length = target.length_sectors;
    spec.next = static_cast<uint32_t>(size);  // In DM_TABLE_LOAD, relative to this target.
    target.type.copy(spec.target_type, kMaxTargetType);
    const size_t at = bytes.size();
    bytes.resize(at + size);
    std::memcpy(bytes.data() + at, &spec, sizeof spec);
    std::memcpy(bytes.data() + at + sizeof spec, target.text.data(), target.text.size());
  }
  return bytes;
}

std::vector<uint8_t> EncodeMessage(const std::string& message) {
  std::vector<uint8_t> bytes(sizeof(struct dm_target_msg) + message.size() + 1);
  std::memcpy(bytes.data() + sizeof(struct dm_target_msg), message.data(), message.size());
  return bytes;
}

Result<std::vector<std::string>> ParseDeviceNames(Span<const uint8_t> bytes) {
  // Without devices the answer is empty.
  if (bytes.empty()) return std::vector<std::string>();
  return ParseChain<offsetof(struct dm_name_list, next), offsetof(struct dm_name_list, name)>(
      bytes, "DM_LIST_DEVICES");
}

Result<std::vector<std::string>> ParseTargetTypes(Span<const uint8_t> bytes) {
  if (bytes.empty()) return std::vector<std::string>();
  return ParseChain<offsetof(struct dm_target_versions, next),
                    offsetof(struct dm_target_versions, name)>(bytes, "DM_LIST_VERSIONS");
}

}  // namespace blockdelta
