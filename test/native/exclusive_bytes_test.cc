// What a file holds alone, on real file systems; and freeing ranges of a block device.
#include "native/scan/exclusive_bytes.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "native/device/files.h"
#include "native/device/punch.h"
#include "test/native/pool.h"
#include "test/native/status_assertions.h"

namespace blockdelta::test {
namespace {

constexpr uint64_t kMiB = 1 << 20;

void Sync(const std::string& path) { EXPECT_OK(SyncFd(Open(path, O_RDONLY).get(), path)); }

void Write(const std::string& path, uint64_t offset, uint64_t size) {
  WriteBytes(path, offset, std::vector<uint8_t>(size, 7));
  Sync(path);
}

class ExclusiveBytesTest : public InEachPool {};
INSTANTIATE_TEST_SUITE_P(, ExclusiveBytesTest, testing::Values("xfs", "btrfs"), KindOf);

TEST_P(ExclusiveBytesTest, CountsWhatNoOtherFileShares) {
  const std::string file = At("file");
  const std::string clone = At("clone");
  EXPECT_CODE(CountExclusiveBytes(file), "ENOENT");
  WriteBytes(file, 0, {});
  EXPECT_EQ(ValueOf(CountExclusiveBytes(file)), 0u);
  Write(file, 0, kMiB);
  Write(file, 2 * kMiB, kMiB);
  EXPECT_EQ(ValueOf(CountExclusiveBytes(file)), 2 * kMiB);
  EXPECT_OK(SetImmutable(file, true));
  EXPECT_OK(CloneFile(file, Names(clone), 4 * kMiB));
  EXPECT_EQ(ValueOf(CountExclusiveBytes(file)), 0u);
  EXPECT_EQ(ValueOf(CountExclusiveBytes(clone)), 0u);
  // A whole extent, so that btrfs has nothing left of it here.
  Write(clone, 2 * kMiB, kMiB);
  EXPECT_EQ(ValueOf(CountExclusiveBytes(file)), kMiB);
  EXPECT_EQ(ValueOf(CountExclusiveBytes(clone)), kMiB);
  EXPECT_TRUE(ValueOf(RemoveFile(clone)));
  // XFS lets go of the blocks of a removed file a moment later.
  for (int i = 0; i < 6000 && ValueOf(CountExclusiveBytes(file)) != 2 * kMiB; i++) usleep(10'000);
  EXPECT_EQ(ValueOf(CountExclusiveBytes(file)), 2 * kMiB);
}

class ExclusiveBytesOnBtrfsTest : public InBtrfs {};

TEST_F(ExclusiveBytesOnBtrfsTest, CountsAnExtentAsAWholeAndOnce) {
  const std::string file = At("file");
  Write(file, 0, kMiB);
  // What is overwritten splits the reference to the extent, which stays as large as it was.
  Write(file, kMiB / 2, 8192);
  EXPECT_EQ(ValueOf(CountExclusiveBytes(file)), kMiB + 8192);
  EXPECT_OK(SetImmutable(file, true));
  EXPECT_OK(CloneFile(file, Names(At("clone")), kMiB));
  Write(At("clone"), 0, 4096);
  EXPECT_EQ(ValueOf(CountExclusiveBytes(At("clone"))), 4096u);
  EXPECT_EQ(ValueOf(CountExclusiveBytes(file)), 0u);
}

class PunchTest : public InXfs {};

TEST_F(PunchTest, FreesRangesOfADeviceAndTouchesNoFile) {
  const Volume* const volume = Make("volume", "", 4 * kMiB);
  WriteBytes(volume->loop(), 0, std::vector<uint8_t>(4 * kMiB, 7));
  Sync(volume->loop());
  EXPECT_OK(PunchDevice(volume->loop(), {{0, kMiB}, {2 * kMiB, kMiB}}, 0));
  std::vector<uint8_t> expected(4 * kMiB, 7);
  for (const uint64_t from : {uint64_t{0}, 2 * kMiB}) {
    std::fill_n(expected.begin() + static_cast<ptrdiff_t>(from), kMiB, 0);
  }
  EXPECT_EQ(ReadBytes(volume->path()), expected);
  EXPECT_LE(static_cast<uint64_t>(StateOf(volume->path()).st_blocks) * 512, 2 * kMiB + 65536);
  EXPECT_CODE(PunchDevice(volume->loop(), {{4 * kMiB, 512}}, 0), "EINVAL");
  EXPECT_CODE(PunchDevice(volume->loop(), {{1, 512}}, 0), "EINVAL");
  EXPECT_CODE(PunchDevice(volume->loop(), {{INT64_MAX, 512}}, 0), "EINVAL");
  EXPECT_CODE(PunchDevice(volume->path(), {{0, 512}}, 0), "ENOTBLK");
  EXPECT_CODE(PunchDevice(At("nothing"), {}, 0), "ENOENT");
}

TEST_F(PunchTest, DiscardsWholeBlocksAndWritesZerosWhereTheRestHoldsData) {
  constexpr uint64_t kBlock = 65536;
  const Volume* const volume = Make("volume", "", 4 * kMiB);
  // Nothing is allocated in the third MiB.
  WriteBytes(volume->loop(), 0, std::vector<uint8_t>(2 * kMiB, 7));
  WriteBytes(volume->loop(), 3 * kMiB, std::vector<uint8_t>(kMiB, 7));
  Sync(volume->loop());
  const auto allocated = [&] {
    return static_cast<uint64_t>(StateOf(volume->path()).st_blocks) * 512;
  };
  const uint64_t before = allocated();
  std::vector<uint8_t> expected = ReadBytes(volume->path());
  std::vector<ByteRange> ranges = {
      {512, 1024},                            // in one block
      {kBlock + 512, kBlock},                 // in two, neither of them whole
      {4 * kBlock - 512, 8 * kBlock + 1024},  // eight, and parts of two more
      {2 * kMiB + 512, 3 * 512},              // of zeros
      {3 * kMiB, kMiB},                       // whole blocks alone
  };
  EXPECT_OK(PunchDevice(volume->loop(), ranges, kBlock));
  Sync(volume->loop());
  for (const auto& [offset, size] : ranges) {
    std::fill_n(expected.begin() + static_cast<ptrdiff_t>(offset), size, 0);
  }
  EXPECT_EQ(ReadBytes(volume->path()), expected);
  EXPECT_LE(allocated(), before - kMiB - 8 * kBlock);
  // More than is written at once.
  EXPECT_OK(PunchDevice(volume->loop(), {{512, 2 * kMiB - 512}}, 16 * kMiB));
  Sync(volume->loop());
  EXPECT_EQ(ReadBytes(volume->path())[512], 0);
  EXPECT_EQ(ReadBytes(volume->path())[0], 7);
  EXPECT_CODE(PunchDevice(volume->loop(), {{4 * kMiB, 512}}, kBlock), "EINVAL");
  EXPECT_CODE(PunchDevice(volume->loop(), {{1, 512}}, kBlock), "EINVAL");
  EXPECT_CODE(PunchDevice(volume->loop(), {{UINT64_MAX - 511, 512}}, kBlock), "EINVAL");
}

}  // namespace
}  // namespace blockdelta::test
