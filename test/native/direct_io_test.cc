// Writers of neighbouring sectors on volumes whose blocks are shared with snapshots.
#include "native/device/direct_io.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <random>
#include <thread>
#include <vector>

#include "native/device/files.h"
#include "native/device/loop_attach.h"
#include "native/device/loop_change.h"
#include "native/device/take_snapshots.h"
#include "test/native/pool.h"
#include "test/native/random_seed.h"
#include "test/native/status_assertions.h"

namespace blockdelta::test {
namespace {

constexpr uint64_t kVolumeBytes = 8 << 20;
constexpr uint32_t kPageBytes = 4096;
constexpr uint32_t kPages = 64;
constexpr uint32_t kWritesToFsync = 16;

// Writes to a part of each page that no other thread writes to, and knows what it wrote.
class Neighbour {
 public:
  Neighbour(std::string device, uint32_t sector_bytes, uint32_t offset, uint32_t own_bytes)
      : device_(std::move(device)),
        sector_bytes_(sector_bytes),
        offset_(offset),
        own_bytes_(own_bytes),
        written_(static_cast<size_t>(kPages) * own_bytes),
        random_(offset + 1) {}

  void Run(uint64_t until_ns) {
    const UniqueFd fd = Open(device_, O_RDWR | O_DIRECT);
    for (uint32_t count = 1; ClockNs(CLOCK_MONOTONIC) < until_ns; count++) {
      ASSERT_TRUE(WriteSome(fd.get()));
      if (count % kWritesToFsync == 0) {
        ASSERT_EQ(fsync(fd.get()), 0);
      }
    }
    for (uint32_t page = 0; page < kPages; page++) ASSERT_TRUE(ReadsBack(fd.get(), page));
  }

 private:
  off_t At(uint32_t page) const { return static_cast<off_t>(page) * kPageBytes + offset_; }

  bool WriteSome(int fd) {
    const uint32_t page = static_cast<uint32_t>(random_()) % kPages;
    const uint32_t sectors = own_bytes_ / sector_bytes_;
    const uint32_t first = static_cast<uint32_t>(random_()) % sectors;
    const uint32_t count = 1 + static_cast<uint32_t>(random_()) % (sectors - first);
    const uint32_t length = count * sector_bytes_;
    uint8_t* known = &written_[page * own_bytes_ + first * sector_bytes_];
    for (uint32_t i = 0; i < length; i++) known[i] = static_cast<uint8_t>(random_());
    std::copy(known, known + length, buffer_);
    return pwrite(fd, buffer_, length, At(page) + first * sector_bytes_) ==
           static_cast<ssize_t>(length);
  }

  bool ReadsBack(int fd, uint32_t page) {
    const uint8_t* known = &written_[page * own_bytes_];
    return pread(fd, buffer_, own_bytes_, At(page)) == static_cast<ssize_t>(own_bytes_) &&
           std::equal(known, known + own_bytes_, buffer_);
  }

  const std::string device_;
  const uint32_t sector_bytes_;
  const uint32_t offset_;
  const uint32_t own_bytes_;
  std::vector<uint8_t> written_;
  std::minstd_rand random_;
  alignas(kPageBytes) uint8_t buffer_[kPageBytes];
};

// Writers share pages and no blocks, while snapshots come and go.
void WriteTogether(const Volume& volume, const std::string& snapshot, uint32_t block_bytes) {
  ASSERT_VALUE(attached, AttachLoop(volume.path(), false, ""));
  const LoopDevice& device = attached.device;
  const uint64_t until_ns =
      ClockNs(CLOCK_MONOTONIC) + (IsNightly() ? 20'000'000'000 : 1'500'000'000);
  std::vector<std::thread> threads;
  for (uint32_t offset = 0; offset < kPageBytes; offset += block_bytes) {
    threads.emplace_back([&device, offset, block_bytes, until_ns] {
      Neighbour(device.path, device.sector_bytes, offset, block_bytes).Run(until_ns);
    });
  }
  while (ClockNs(CLOCK_MONOTONIC) < until_ns) {
    EXPECT_OK(TakeSnapshots({{volume.path(), Names(snapshot), device.path, {}}}));
    SleepMs(100);
    EXPECT_OK(RemoveFile(snapshot));
  }
  for (std::thread& thread : threads) thread.join();
}

struct DirectIoCase {
  const char* name;
  const char* kind;
  const char* mkfs_options;
  uint32_t block_bytes;
  const char* mount_options = "";
};

class DirectIoOnPoolTest : public InPoolOf<DirectIoCase> {};
INSTANTIATE_TEST_SUITE_P(
    , DirectIoOnPoolTest,
    testing::Values(DirectIoCase{"xfs_with_blocks_of_1_KiB", "xfs", "-b size=1024", 1024},
                    DirectIoCase{"xfs_with_blocks_of_2_KiB", "xfs", "-b size=2048", 2048},
                    DirectIoCase{"xfs_with_blocks_of_4_KiB", "xfs", "-b size=4096", 1024},
                    DirectIoCase{"btrfs", "btrfs", "", 1024}),
    NameOf<DirectIoCase>);

TEST_P(DirectIoOnPoolTest, H14WritesNeighbouringSectorsWithoutErrors) {
  // Attached before the first snapshot: newer kernels read the properties of the file then.
  WriteTogether(*Make("volume", "", kVolumeBytes), At("snapshot"), GetParam().block_bytes);
}

class UnsafeDirectIoTest : public InPoolOf<DirectIoCase> {};
INSTANTIATE_TEST_SUITE_P(, UnsafeDirectIoTest,
                         testing::Values(DirectIoCase{"small_blocks", "xfs", "-b size=1024", 1024},
                                         DirectIoCase{"checksums", "btrfs", "", 4096}),
                         NameOf<DirectIoCase>);

// A volume attached the way that earlier releases did it.
TEST_P(UnsafeDirectIoTest, H14EndsAtTheNextAttachOrStartAndStaysOff) {
  const std::string path = MakeFile(At("volume"), kVolumeBytes);
  const std::string command = "losetup --find --direct-io=on " + path;
  ASSERT_TRUE(RunCommand(command));
  ASSERT_VALUE(attached, AttachLoop(path, false, ""));
  EXPECT_TRUE(!attached.created && !attached.device.direct_io);
  EXPECT_CODE(SetLoopDirectIo(attached.device.path, true), "EOPNOTSUPP");
  EXPECT_OK(DetachLoop(path));
  ASSERT_TRUE(RunCommand(command));
  EXPECT_EQ(ValueOf(EndUnsafeDirectIo(pool_.mount_point())), 1u);
  EXPECT_EQ(ValueOf(EndUnsafeDirectIo(pool_.mount_point())), 0u);
  EXPECT_OK(DetachLoop(path));
}

TEST(DirectIoTest, BtrfsWritesFilesWithoutChecksumsDirectly) {
  const Pool pool("btrfs");
  const std::string path = pool.At("nocow");
  ASSERT_TRUE(RunCommand("touch " + path + " && chattr +C " + path + " && truncate -s 8M " + path));
  ASSERT_VALUE(attached, AttachLoop(path, false, ""));
  EXPECT_TRUE(attached.device.direct_io);
  EXPECT_EQ(ValueOf(EndUnsafeDirectIo(pool.mount_point())), 0u);
  EXPECT_OK(SetLoopDirectIo(attached.device.path, true));
  EXPECT_OK(DetachLoop(path));
}

TEST(DirectIoTest, H15RefusedDiscardsDoNotPassToTheNextUserOfTheDeviceNumber) {
  const TempDirectory directory;
  const std::string path = MakeFile(directory.At("image"), kVolumeBytes);
  for (const bool detach_ourselves : {true, false}) {
    ASSERT_VALUE(attached, AttachLoop(path, false, ""));
    const std::string device = attached.device.path;
    EXPECT_TRUE(RunCommand("blkdiscard " + device));
    ASSERT_OK(RefuseLoopDiscards(attached.device.number));
    EXPECT_OK(RefuseLoopDiscards(attached.device.number));
    EXPECT_FALSE(RunCommand("blkdiscard " + device));
    if (detach_ourselves) {
      EXPECT_OK(DetachLoop(path));
    } else {
      EXPECT_TRUE(RunCommand("losetup --detach " + device));
    }
  }
  ASSERT_VALUE(attached, AttachLoop(path, false, ""));
  EXPECT_TRUE(RunCommand("blkdiscard " + attached.device.path));
  EXPECT_OK(DetachLoop(path));
}

}  // namespace
}  // namespace blockdelta::test
