// Extent maps of real files.
#include "native/scan/fiemap_source.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "native/base/posix.h"
#include "test/native/pool.h"
#include "test/native/status_assertions.h"

namespace blockdelta {
namespace {

constexpr uint64_t kBlock = 4096;

// Which blocks are not zeros, from all extents behind `offset`, read `wanted` at a time. Checks
// what every source promises.
std::vector<bool> DataBlocks(const std::string& path, uint64_t size, uint64_t offset,
                             size_t wanted) {
  std::vector<bool> blocks((size + kBlock - 1) / kBlock);
  Result<UniqueFd> fd = OpenPath(path, O_RDONLY);
  EXPECT_OK(fd);
  if (!fd.ok()) return blocks;
  FiemapSource source(fd->get(), path, size);
  source.Seek(offset);
  uint64_t previous_end = 0;
  for (bool first = true;; first = false) {
    Result<Span<const Extent>> batch = source.Read(wanted);
    EXPECT_OK(batch);
    if (!batch.ok() || batch->empty()) return blocks;
    EXPECT_LE(batch->size(), wanted);
    if (first) {
      EXPECT_GT((*batch)[0].end(), offset);
    }
    for (const Extent& extent : *batch) {
      EXPECT_TRUE(extent.length > 0 && extent.logical >= previous_end && extent.end() <= size);
      previous_end = extent.end();
      if (Classify(extent.flags) == ExtentClass::kZero) continue;
      for (uint64_t at = extent.logical; at < extent.end(); at += kBlock)
        blocks[at / kBlock] = true;
    }
  }
}

class FiemapSourceTest : public test::PoolTest {};
INSTANTIATE_TEST_SUITE_P(, FiemapSourceTest, testing::Values("xfs", "btrfs"), test::KindOf);

TEST_P(FiemapSourceTest, MapsExactlyTheWrittenBlocks) {
  const std::string path = pool_->At("file");
  std::vector<bool> expected;
  for (uint64_t block = 0; block < 3000; block++) {
    expected.push_back(block % 3 == 1 || block % 50 < 10);
    if (expected[block]) test::WriteBytes(path, block * kBlock, std::vector<uint8_t>(kBlock, 1));
  }
  const uint64_t size = 3100 * kBlock;
  expected.resize(3100);
  EXPECT_EQ(truncate(path.c_str(), static_cast<off_t>(size)), 0);
  for (const size_t wanted : {1, 7, 1024}) EXPECT_EQ(DataBlocks(path, size, 0, wanted), expected);
  for (const uint64_t offset : {uint64_t{1}, kBlock, 777 * kBlock + 5, 2998 * kBlock}) {
    const std::vector<bool> found = DataBlocks(path, size, offset, 1024);
    for (uint64_t block = offset / kBlock; block < 3100; block++) {
      EXPECT_EQ(found[block], expected[block]);
    }
  }
  EXPECT_EQ(DataBlocks(path, size, size, 1024), std::vector<bool>(3100));
}

TEST_P(FiemapSourceTest, ShowsWhatWasJustWrittenOverAPreallocationAsData) {
  const std::string path = pool_->At("file");
  constexpr uint64_t kBlocks = 64;
  {
    Result<UniqueFd> fd = OpenPath(path, O_RDWR | O_CREAT, 0600);
    ASSERT_OK(fd);
    ASSERT_EQ(fallocate(fd->get(), 0, 0, kBlocks * kBlock), 0);
    EXPECT_OK(SyncFd(fd->get(), path));
  }
  test::WriteBytes(path, 7 * kBlock, std::vector<uint8_t>(kBlock, 1));
  std::vector<bool> expected(kBlocks);
  expected[7] = true;
  EXPECT_EQ(DataBlocks(path, kBlocks * kBlock, 0, 1024), expected);
}

TEST_P(FiemapSourceTest, LeavesOutPreallocationAfterTheEnd) {
  const std::string path = pool_->At("file");
  test::WriteBytes(path, 0, std::vector<uint8_t>(3 * kBlock, 1));
  Result<UniqueFd> fd = OpenPath(path, O_RDWR);
  ASSERT_OK(fd);
  EXPECT_EQ(fallocate(fd->get(), FALLOC_FL_KEEP_SIZE, 0, 1 << 20), 0);
  // DataBlocks() fails on an extent that ends beyond the size.
  EXPECT_EQ(DataBlocks(path, 3 * kBlock, 0, 1024), std::vector<bool>(3, true));
  EXPECT_EQ(DataBlocks(path, 2 * kBlock + 100, 0, 1024), std::vector<bool>(3, true));
}

TEST(FiemapSourceOfMemoryTest, RefusesAFileWithoutExtentMapsAsUnsupported) {
  const UniqueFd fd(memfd_create("no-maps", MFD_CLOEXEC));
  ASSERT_TRUE(fd.valid());
  FiemapSource source(fd.get(), "memory", kBlock);
  source.Seek(0);
  EXPECT_CODE(source.Read(10), "SCAN_UNSUPPORTED");
}

}  // namespace
}  // namespace blockdelta
