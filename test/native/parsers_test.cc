// The pure functions that read what a kernel or a disk says, valid or not.
#include <gtest/gtest.h>
#include <sys/sysmacros.h>

#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "native/device/ext4_layout.h"
#include "native/device/mount_point.h"
#include "native/device/write_counters.h"
#include "test/native/random_seed.h"

namespace blockdelta {
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
  const std::optional<Ext4Layout> large = ParseExt4Superblock(Superblock(5'000'000'000).data());
  EXPECT_TRUE(large.has_value() && large->blocks == 5'000'000'000);
  // Without the 64-bit feature the upper half is something else.
  std::vector<uint8_t> old = Superblock(40'000);
  Put(&old, 0x60, 4, 0);
  Put(&old, 0x150, 4, 77);
  const std::optional<Ext4Layout> small_again = ParseExt4Superblock(old.data());
  EXPECT_TRUE(small_again.has_value() && small_again->blocks == 40'000);
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
  std::mt19937_64 random(test::Seed());
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

}  // namespace
}  // namespace blockdelta
