// The pure functions that read what a kernel or a disk says, valid or not: mounts, superblocks, and
// lines and buffers of device-mapper.
#include <gtest/gtest.h>
#include <linux/dm-ioctl.h>
#include <sys/sysmacros.h>

#include <cstring>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "native/device/dm_buffer.h"
#include "native/device/dm_status.h"
#include "native/device/ext4_layout.h"
#include "native/device/mount_point.h"
#include "native/device/write_counters.h"
#include "test/native/random_seed.h"
#include "test/native/status_assertions.h"

namespace blockdelta::test {
namespace {

constexpr uint64_t kMiB = 1 << 20;

bool Reads(const std::string& text, uint64_t written, uint64_t discarded) {
  const std::optional<WriteCounters> counters = ParseBlockStat(text);
  return counters.has_value() && *counters == WriteCounters{written, discarded};
}

TEST(ParsersTest, FindsTheWriteAndDiscardCountersInAStatLineOfAnyKernel) {
  EXPECT_TRUE(Reads(" 1 2 3 4 5 6 70 8 9 10 11 12 13 140 15 16 17\n", 70, 140));
  EXPECT_TRUE(Reads("1 2 3 4 5 6 70 8 9 10 11 12 13 140 15", 70, 140));
  EXPECT_TRUE(Reads("1\t2 3 4 5 6 18446744073709551615 8 9 10 11\n", UINT64_MAX, 0));
}

TEST(ParsersTest, RefusesWhatIsNotAStatLine) {
  for (const char* text :
       {"", "\n", "1 2 3 4 5 6 7 8 9 10", "1 2 3 4 5 6 7 8 9 10 x", "1 2 3 4 5 6 -7 8 9 10 11",
        "1 2 3 4 5 6 0x7 8 9 10 11", "1 2 3 4 5 6 18446744073709551616 8 9 10 11",
        "1 2 3 4 5 6 7.5 8 9 10 11", "1 2 3 4 5 6 7, 8 9 10 11"}) {
    EXPECT_FALSE(ParseBlockStat(text).has_value());
  }
  EXPECT_FALSE(ParseBlockStat(std::string("1 2 3 4 5 6 7\0 8 9 10 11", 24)).has_value());
  std::string endless;
  for (int i = 0; i < 1000; i++) endless += "1 ";
  EXPECT_FALSE(ParseBlockStat(endless).has_value());
}

void Put(std::vector<uint8_t>* bytes, size_t offset, size_t size, uint64_t value) {
  for (size_t i = 0; i < size; i++) (*bytes)[offset + i] = static_cast<uint8_t>(value >> 8 * i);
}

// As mke2fs makes it: 4 KiB blocks, 128 MiB groups, 8192 inodes of 256 bytes a group.
std::vector<uint8_t> Superblock(uint64_t blocks) {
  std::vector<uint8_t> bytes(kExt4SuperblockBytes);
  Put(&bytes, 0x38, 2, 0xEF53);
  Put(&bytes, 0x04, 4, blocks & UINT32_MAX);
  Put(&bytes, 0x150, 4, blocks >> 32);
  Put(&bytes, 0x18, 4, 2);
  Put(&bytes, 0x20, 4, 32768);
  Put(&bytes, 0x28, 4, 8192);
  Put(&bytes, 0x58, 2, 256);
  Put(&bytes, 0x60, 4, 0x80);
  Put(&bytes, 0xFE, 2, 64);
  return bytes;
}

TEST(ParsersTest, ReadsBothHalvesOfTheBlockCountOfAnExt4Superblock) {
  const std::optional<Ext4Layout> small = ParseExt4Superblock(Superblock(40'000).data());
  ASSERT_TRUE(small.has_value());
  EXPECT_EQ(small->blocks, 40'000u);
  EXPECT_EQ(small->block_bytes, 4096u);
  const auto large = ParseExt4Superblock(Superblock(5'000'000'000).data());
  EXPECT_TRUE(large.has_value() && large->blocks == 5'000'000'000);
  // Without the 64-bit feature the upper half is something else.
  std::vector<uint8_t> old = Superblock(40'000);
  Put(&old, 0x60, 4, 0);
  Put(&old, 0x150, 4, 77);
  EXPECT_EQ(ParseExt4Superblock(old.data()).value_or(Ext4Layout()).blocks, 40'000u);
}

TEST(ParsersTest, RequiresRoomForItsOwnTablesInANewExt4Group) {
  const std::optional<Ext4Layout> full = ParseExt4Superblock(Superblock(32768).data());
  ASSERT_TRUE(full.has_value());
  EXPECT_TRUE(!CanGrowTo(*full, 0) && !CanGrowTo(*full, 128 * kMiB));
  EXPECT_TRUE(!CanGrowTo(*full, 128 * kMiB + 4095) && !CanGrowTo(*full, 130 * kMiB));
  EXPECT_TRUE(CanGrowTo(*full, 132 * kMiB));
  const std::optional<Ext4Layout> open = ParseExt4Superblock(Superblock(32767).data());
  EXPECT_TRUE(open.has_value() && CanGrowTo(*open, 128 * kMiB));
}

TEST(ParsersTest, RefusesAnInconsistentSuperblockAndReadsOrRefusesRandomOnes) {
  const std::tuple<size_t, size_t, uint64_t> damages[] = {
      {0x38, 2, 0xEF54}, {0x18, 4, 7}, {0x18, 4, UINT32_MAX}, {0x20, 4, 0},
      {0x20, 4, 40'000}, {0x14, 4, 2}, {0x04, 4, 0}};
  for (const auto& [offset, size, value] : damages) {
    std::vector<uint8_t> bytes = Superblock(40'000);
    Put(&bytes, offset, size, value);
    EXPECT_FALSE(ParseExt4Superblock(bytes.data()).has_value()) << offset;
  }
  std::mt19937_64 random(Seed());
  for (int round = 0; round < 20'000; round++) {
    std::vector<uint8_t> bytes = Superblock(random());
    for (int change = 0; change < 3; change++) bytes[random() % bytes.size()] = random() & 0xff;
    const std::optional<Ext4Layout> layout = ParseExt4Superblock(bytes.data());
    if (layout.has_value()) static_cast<void>(CanGrowTo(*layout, random()));
  }
}

TEST(ParsersTest, FindsTheFirstMountPointOfADeviceAndUnescapesIt) {
  const std::string text =
      "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
      "30 22 253:7 /sub /mnt/with\\040blank\\134and\\011more rw,relatime shared:1 - xfs /dev/dm-7 "
      "rw\n"
      "31 22 253:7 / /second rw - xfs /dev/dm-7 rw\n"
      "32 22 253:70 / /other rw - xfs /dev/dm-70 rw";
  EXPECT_EQ(MountPointOf(text, makedev(253, 7)).value_or("none"), "/mnt/with blank\\and\tmore");
  EXPECT_EQ(MountPointOf(text, makedev(253, 70)).value_or("none"), "/other");
  EXPECT_FALSE(MountPointOf(text, makedev(253, 0)).has_value());
  EXPECT_FALSE(MountPointOf("", makedev(253, 7)).has_value());
  for (const char* odd : {"253:7", "1 2 253:7", "1 2 253:7 /", "1 2 253:7 / ", "\n\n \n"}) {
    EXPECT_FALSE(MountPointOf(odd, makedev(253, 7)).has_value());
  }
  EXPECT_EQ(MountPointOf("1 2 253:7 / \\04", makedev(253, 7)).value_or("none"), "\\04");
}

// What test/fuzz finds read, it writes again: here, that each word says what it should.
TEST(DmStatusTest, ReadsEveryWordOfAPoolStatus) {
  // The kernel ends it with a blank; a later one may add words.
  Result<ThinPoolStatus> status = ParseThinPoolStatus(
      "18446744073709551615 829/8192 5/19200 - rw discard_passdown error_if_no_space - 1024 17 ");
  ASSERT_OK(status);
  EXPECT_EQ(status->mode, ThinPoolMode::kReadWrite);
  EXPECT_EQ(status->transaction_id, UINT64_MAX);
  EXPECT_EQ(status->used_metadata_blocks, 829u);
  EXPECT_EQ(status->total_metadata_blocks, 8192u);
  EXPECT_EQ(status->used_data_blocks, 5u);
  EXPECT_EQ(status->total_data_blocks, 19200u);
  EXPECT_FALSE(status->held_root.has_value());
  EXPECT_EQ(status->discards, ThinPoolDiscards::kPassdown);
  EXPECT_TRUE(status->errors_when_full);
  EXPECT_FALSE(status->needs_check);
  EXPECT_EQ(status->metadata_low_water_blocks, 1024u);
  status = ParseThinPoolStatus("0 1/1 5/9 73 rw no_discard_passdown queue_if_no_space - 0");
  ASSERT_OK(status);
  EXPECT_EQ(status->held_root.value_or(0), 73u);
  EXPECT_EQ(status->discards, ThinPoolDiscards::kNoPassdown);
  EXPECT_FALSE(status->errors_when_full);
}

TEST(DmStatusTest, TellsWhetherAPoolKeepsMessages) {
  const auto about = [](const std::string& mode, const std::string& check) {
    return "1 9/10 10/10 - " + mode + " ignore_discard error_if_no_space " + check + " 2";
  };
  struct Row {
    std::string line;
    ThinPoolMode mode;
    bool keeps;
  };
  for (const Row& row :
       {Row{about("rw", "-"), ThinPoolMode::kReadWrite, true},
        Row{about("out_of_data_space", "-"), ThinPoolMode::kOutOfDataSpace, true},
        Row{about("ro", "-"), ThinPoolMode::kReadOnly, false},
        Row{about("ro", "needs_check"), ThinPoolMode::kReadOnly, false},
        Row{about("rw", "needs_check"), ThinPoolMode::kReadWrite, false},
        Row{"Fail", ThinPoolMode::kFail, false}, Row{"Error", ThinPoolMode::kError, false}}) {
    ASSERT_VALUE(status, ParseThinPoolStatus(row.line));
    EXPECT_EQ(status.mode, row.mode) << row.line;
    EXPECT_EQ(status.KeepsMessages(), row.keeps) << row.line;
  }
}

TEST(DmStatusTest, RefusesAPoolStatusWithAWordMissingOrChanged) {
  const std::vector<std::string> words = {
      "0", "829/8192", "0/19200", "-", "rw", "discard_passdown", "error_if_no_space", "-", "1024"};
  const std::vector<std::vector<std::string>> wrong = {
      {"-1", "+1", "00", "0x1", "1.0", "18446744073709551616", "99999999999999999999", "-"},
      {"829", "829/", "/8192", "8193/8192", "829/8192/1", "1/4161601", "a/b", "-"},
      {"1", "5/4", "0/99999999999999999999", "0/144115188075855872"},
      {"0", "4161601", "held", "--", "1/2"},
      {"RW", "wr", "r", "rww", "out_of_space", "-"},
      {"discard", "passdown", "-"},
      {"error", "queue", "-"},
      {"check", "needs_check?", "--", "0"},
      {"-", "low", "1/2", "4161601"},
  };
  const auto join = [&](size_t replaced, const std::string* word) {
    std::string line;
    for (size_t i = 0; i < words.size(); i++) {
      if (i != replaced) line += words[i] + " ";
      if (i == replaced && word != nullptr) line += *word + " ";
    }
    return line;
  };
  for (size_t i = 0; i < words.size(); i++) {
    EXPECT_CODE(ParseThinPoolStatus(join(i, nullptr)), kDmStatusInvalid);
    for (const std::string& word : wrong[i]) {
      EXPECT_CODE(ParseThinPoolStatus(join(i, &word)), kDmStatusInvalid) << join(i, &word);
    }
  }
  for (const char* line : {"", " ", "Fail Fail", "fail", "Failure", "Error 1", "rw"}) {
    EXPECT_CODE(ParseThinPoolStatus(line), kDmStatusInvalid);
  }
  EXPECT_CODE(ParseThinPoolStatus(std::string_view("0\0", 2)), kDmStatusInvalid);
}

TEST(DmStatusTest, ShowsTheRefusedLineAndNamesTheWord) {
  EXPECT_EQ(MessageOf(ParseThinPoolStatus("7 1/2 3/2 -")),
            "thin-pool status '7 1/2 3/2 -': the used data exceeds the total");
}

TEST(DmStatusTest, ReadsThePoolAndTheIdOfAThinTable) {
  Result<ThinTable> table = ParseThinTable("253:1048575 16777215");
  EXPECT_TRUE(table.ok() && table->pool_major == 253 && table->pool_minor == 1048575 &&
              table->device_id == 16777215);
  EXPECT_OK(ParseThinTable("253:0 1 7:3"));
  for (const char* line : {"", "253:0", "253 1", "/dev/dm-0 1", "253:0 16777216", "4096:0 1",
                           "253:1048576 1", "253:0 1 7:3 x", ":0 1", "253: 1"}) {
    EXPECT_CODE(ParseThinTable(line), kDmStatusInvalid);
  }
}

using Bytes = std::vector<uint8_t>;

Span<const uint8_t> SpanOf(const Bytes& bytes) { return {bytes.data(), bytes.size()}; }

// As DM_TABLE_STATUS gives them: `next` counts from the first target.
Bytes Chain(const std::vector<DmTarget>& targets) {
  Bytes bytes = EncodeTargets(targets);
  size_t at = 0;
  for (size_t i = 0; i < targets.size(); i++) {
    struct dm_target_spec spec;
    std::memcpy(&spec, bytes.data() + at, sizeof spec);
    const size_t size = spec.next;
    spec.next = static_cast<uint32_t>(at + size);
    std::memcpy(bytes.data() + at, &spec, sizeof spec);
    at += size;
  }
  return bytes;
}

const DmTarget kThreeTargets[] = {
    {"linear", 0, 8, "254:0 0"}, {"error", 8, 16, "  "}, {"fifteen-letters", 24, 1, "254:0 24 x "}};

Bytes ThreeTargets() { return Chain({std::begin(kThreeTargets), std::end(kThreeTargets)}); }

TEST(DmStatusTest, ReadsTargetsBackWithTheLongestTypeAndWithoutTrailingBlanks) {
  ASSERT_VALUE(targets, ParseTargets(SpanOf(ThreeTargets()), 3));
  ASSERT_EQ(targets.size(), 3u);
  for (size_t i = 0; i < 3; i++) {
    EXPECT_EQ(targets[i].type, kThreeTargets[i].type);
    EXPECT_EQ(targets[i].start_sectors, kThreeTargets[i].start_sectors);
    EXPECT_EQ(targets[i].length_sectors, kThreeTargets[i].length_sectors);
  }
  // Without the blanks at their ends: as equal to the one that was loaded.
  EXPECT_EQ(targets[0].text, "254:0 0");
  EXPECT_EQ(targets[1].text, "");
  EXPECT_EQ(targets[2].text, "254:0 24 x");
  EXPECT_TRUE(ValueOf(ParseTargets(Span<const uint8_t>(), 0)).empty());
}

TEST(DmStatusTest, RefusesTargetsThatEndEarlyLeadAstrayOverlapOrHaveGaps) {
  const Bytes whole = ThreeTargets();
  const auto is_refused = [](const Bytes& bytes, uint32_t count) {
    return ParseTargets(SpanOf(bytes), count).status().Is(kDmStatusInvalid);
  };
  EXPECT_TRUE(is_refused(whole, 4));
  EXPECT_TRUE(is_refused({}, 1));
  // The padding behind the last text may be missing.
  for (size_t size = 0; size + 8 < whole.size(); size++) {
    EXPECT_TRUE(
        is_refused(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)), 3));
  }
  const auto with = [&](size_t offset, uint64_t value, size_t size) {
    Bytes bytes = whole;
    std::memcpy(bytes.data() + offset, &value, size);
    return bytes;
  };
  for (const uint64_t next : {0ul, 8ul, 39ul, 40ul, 47ul, 4096ul, 0xfffffffful}) {
    EXPECT_TRUE(is_refused(with(offsetof(struct dm_target_spec, next), next, 4), 3));
  }
  for (const uint64_t start : {1ul, UINT64_MAX}) EXPECT_TRUE(is_refused(with(0, start, 8), 3));
  for (const uint64_t length : {0ul, 7ul, 9ul, kMaxSectors, kMaxSectors + 1, UINT64_MAX}) {
    EXPECT_TRUE(is_refused(with(8, length, 8), 3));
  }
  EXPECT_TRUE(is_refused(with(offsetof(struct dm_target_spec, target_type), 0, 1), 3));
  Bytes endless = whole;
  std::memset(endless.data() + offsetof(struct dm_target_spec, target_type), 'x', 16);
  EXPECT_TRUE(is_refused(endless, 3));
}

// Records as those of DM_LIST_DEVICES (text at 12, next at 8) or DM_LIST_VERSIONS (16, 0).
Bytes Records(const std::vector<std::string>& names, size_t next_at, size_t text_at) {
  Bytes bytes;
  for (size_t i = 0; i < names.size(); i++) {
    const size_t at = bytes.size();
    const size_t size = (text_at + names[i].size() + 1 + 7) / 8 * 8;
    bytes.resize(at + size);
    std::memcpy(bytes.data() + at + text_at, names[i].data(), names[i].size());
    const auto next = static_cast<uint32_t>(i + 1 == names.size() ? 0 : size);
    std::memcpy(bytes.data() + at + next_at, &next, sizeof next);
  }
  return bytes;
}

TEST(DmStatusTest, ReadsTheChainsOfDeviceAndTargetTypeNames) {
  const std::vector<std::string> names = {"pool", std::string(127, 'n'), "x"};
  EXPECT_EQ(ValueOf(ParseDeviceNames(SpanOf(Records(names, 8, 12)))), names);
  EXPECT_EQ(ValueOf(ParseTargetTypes(SpanOf(Records(names, 0, 16)))), names);
  EXPECT_TRUE(ValueOf(ParseDeviceNames(Span<const uint8_t>())).empty());
}

TEST(DmStatusTest, RefusesNamesThatEndEarlyOrLeadAstray) {
  const Bytes whole = Records({"first", "second"}, 8, 12);
  for (size_t size = 1; size < 24 + 12 + 7; size++) {
    const Bytes bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_CODE(ParseDeviceNames(SpanOf(bytes)), kDmStatusInvalid);
  }
  for (const uint32_t next : {1u, 12u, 17u, 49u, 0xffffffffu}) {
    Bytes bytes = whole;
    std::memcpy(bytes.data() + 8, &next, sizeof next);
    EXPECT_CODE(ParseDeviceNames(SpanOf(bytes)), kDmStatusInvalid);
  }
}

TEST(DmStatusTest, PutsAMessageBehindItsSectorAndEndsItWithANul) {
  const Bytes bytes = EncodeMessage("delete 5");
  EXPECT_EQ(bytes.size(), 8u + 9u);
  EXPECT_EQ(std::memcmp(bytes.data(), "\0\0\0\0\0\0\0\0delete 5", 17), 0);
}

}  // namespace
}  // namespace blockdelta::test
