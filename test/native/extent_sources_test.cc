// Extent maps of real files, and extent items of btrfs compared with them and with the bytes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/btrfs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <random>

#include "native/device/files.h"
#include "native/scan/extent_cursor.h"
#include "native/scan/fiemap_source.h"
#include "native/scan/tree_search_source.h"
#include "test/native/pool.h"
#include "test/native/random_seed.h"
#include "test/native/status_assertions.h"

namespace blockdelta::test {
namespace {

constexpr uint64_t kBlock = 4096;
constexpr uint64_t kSize = 8 << 20;

struct File {
  explicit File(const std::string& path) : path(path), fd(Open(path, O_RDWR)) {}

  std::unique_ptr<TreeSearchSource> Tree(uint64_t size = kSize) const {
    EXPECT_OK(SyncFd(fd.get(), path));
    auto source = ValueOf(TreeSearchSource::Open(fd.get(), path, size));
    EXPECT_NE(source, nullptr);
    return source;
  }
  void Allocate(int mode, uint64_t offset, uint64_t size) const {
    EXPECT_EQ(fallocate(fd.get(), mode, static_cast<off_t>(offset), static_cast<off_t>(size)), 0);
  }

  std::string path;
  UniqueFd fd;
};

// Class and address of each block behind `offset`, read `wanted` extents at a time. Checks what
// every source promises.
struct Mapped {
  ExtentClass kind = ExtentClass::kZero;
  uint64_t address = 0;
  uint64_t origin = 0;
};

std::vector<Mapped> Blocks(ExtentSource* source, uint64_t offset, size_t wanted,
                           uint64_t size = kSize) {
  std::vector<Mapped> blocks((size + kBlock - 1) / kBlock);
  source->Seek(offset);
  uint64_t previous_end = 0;
  for (bool first = true;; first = false) {
    Result<Span<const Extent>> batch = source->Read(wanted);
    EXPECT_OK(batch);
    if (!batch.ok() || batch->empty()) return blocks;
    EXPECT_LE(batch->size(), wanted);
    if (first) {
      EXPECT_GT((*batch)[0].end(), offset);
    }
    for (const Extent& extent : *batch) {
      EXPECT_TRUE(extent.length > 0 && extent.logical >= previous_end && extent.end() <= size);
      previous_end = extent.end();
      for (uint64_t at = extent.logical; at < extent.end(); at += kBlock) {
        blocks[at / kBlock] = {Classify(extent.flags), extent.physical + (at - extent.logical),
                               extent.origin};
      }
    }
  }
}

// Which blocks are not zeros.
std::vector<bool> DataBlocks(const std::string& path, uint64_t size, uint64_t offset,
                             size_t wanted) {
  const File file(path);
  FiemapSource source(file.fd.get(), path, size);
  std::vector<bool> blocks;
  for (const Mapped& block : Blocks(&source, offset, wanted, size)) {
    blocks.push_back(block.kind != ExtentClass::kZero);
  }
  return blocks;
}

class FiemapSourceTest : public InEachPool {};
INSTANTIATE_TEST_SUITE_P(, FiemapSourceTest, testing::Values("xfs", "btrfs"), KindOf);

TEST_P(FiemapSourceTest, MapsExactlyTheWrittenBlocks) {
  const std::string path = At("file");
  std::vector<bool> expected;
  for (uint64_t block = 0; block < 3000; block++) {
    expected.push_back(block % 3 == 1 || block % 50 < 10);
    if (expected[block]) WriteBytes(path, block * kBlock, std::vector<uint8_t>(kBlock, 1));
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
  constexpr uint64_t kBlocks = 64;
  const std::string path = MakeFile(At("file"), kBlocks * kBlock);
  const File file(path);
  file.Allocate(0, 0, kBlocks * kBlock);
  EXPECT_OK(SyncFd(file.fd.get(), path));
  WriteBytes(path, 7 * kBlock, std::vector<uint8_t>(kBlock, 1));
  std::vector<bool> expected(kBlocks);
  expected[7] = true;
  EXPECT_EQ(DataBlocks(path, kBlocks * kBlock, 0, 1024), expected);
}

TEST_P(FiemapSourceTest, LeavesOutPreallocationAfterTheEnd) {
  const std::string path = At("file");
  WriteBytes(path, 0, std::vector<uint8_t>(3 * kBlock, 1));
  File(path).Allocate(FALLOC_FL_KEEP_SIZE, 0, 1 << 20);
  // Blocks() fails on an extent that ends beyond the size.
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

struct MapCase {
  const char* name;
  const char* mount_options;
  const char* mkfs_options;
  bool compresses;
  const char* kind = "btrfs";
};

class TreeSearchSourceTest : public InPoolOf<MapCase> {};
INSTANTIATE_TEST_SUITE_P(, TreeSearchSourceTest,
                         testing::Values(MapCase{"default", "", "", false},
                                         MapCase{"explicit_holes", "", "-O ^no-holes", false},
                                         MapCase{"nodatacow", "nodatacow", "", false},
                                         MapCase{"compressed", "compress-force=zstd", "", true}),
                         NameOf<MapCase>);

TEST_P(TreeSearchSourceTest, AgreesWithFiemapAndTheBytesFromAnyOffset) {
  const std::string path = MakeFile(At("file"), kSize);
  // btrfs compresses nothing more in a file that was once preallocated.
  RandomWriter writer(path, Seed(), GetParam().compresses);
  for (int step = 0; step < 600; step++) writer.Step();
  const File opened(path);
  const std::unique_ptr<TreeSearchSource> tree = opened.Tree();
  ASSERT_NE(tree, nullptr);
  FiemapSource fiemap(opened.fd.get(), path, kSize);
  const std::vector<Mapped> expected = Blocks(&fiemap, 0, 1024);
  const std::vector<uint8_t> bytes = ReadBytes(path);
  size_t compressed = 0;
  for (int round = 0; round < 40; round++) {
    const uint64_t offset = round == 0 ? 0 : writer.Below(kSize);
    const std::vector<Mapped> found = Blocks(tree.get(), offset, 1 + writer.Below(1024));
    for (size_t block = (offset + kBlock - 1) / kBlock; block < found.size(); block++) {
      const Mapped& mine = found[block];
      const Mapped& theirs = expected[block];
      compressed += mine.origin != 0 ? 1 : 0;
      if (mine.origin != 0) {
        ASSERT_EQ(theirs.kind, ExtentClass::kOpaque) << block;
      } else {
        ASSERT_EQ(mine.kind, theirs.kind) << "block " << block << " from " << offset;
        ASSERT_TRUE(mine.kind != ExtentClass::kData || mine.address == theirs.address) << block;
      }
      ASSERT_TRUE(mine.kind != ExtentClass::kZero || bytes[block * kBlock] == 0) << block;
    }
  }
  if (GetParam().compresses) {
    EXPECT_GT(compressed, 1000u);
  }
}

TEST_P(TreeSearchSourceTest, FindsTheItemThatCoversAPositionAcrossLongHoles) {
  const std::string path = MakeFile(At("file"), uint64_t{1} << 50);
  const File file(path);
  const uint64_t far = (uint64_t{1} << 49) + 8 * kBlock;
  for (const uint64_t offset : {uint64_t{0}, 64 * kBlock, far}) {
    WriteBytes(path, offset, std::vector<uint8_t>(2 * kBlock, 1));
  }
  const std::unique_ptr<TreeSearchSource> tree = file.Tree(uint64_t{1} << 50);
  ASSERT_NE(tree, nullptr);
  const auto first_data = [&tree](uint64_t offset) {
    tree->Seek(offset);
    for (;;) {
      Result<Span<const Extent>> batch = tree->Read(1);
      if (!batch.ok() || batch->empty()) return UINT64_MAX;
      EXPECT_GT((*batch)[0].end(), offset);
      if (Classify((*batch)[0].flags) != ExtentClass::kZero) return (*batch)[0].logical;
    }
  };
  EXPECT_EQ(first_data(0), 0u);
  EXPECT_EQ(first_data(2 * kBlock - 1), 0u);
  EXPECT_EQ(first_data(2 * kBlock), 64 * kBlock);
  EXPECT_EQ(first_data(65 * kBlock), 64 * kBlock);
  EXPECT_EQ(first_data(uint64_t{1} << 40), far);
  EXPECT_EQ(first_data(far + 2 * kBlock - 1), far);
  EXPECT_EQ(first_data(far + 2 * kBlock), UINT64_MAX);
  EXPECT_EQ(first_data((uint64_t{1} << 50) - 1), UINT64_MAX);
}

class TreeSearchTest : public InBtrfs {};

TEST_F(TreeSearchTest, ShowsASmallFileAsInline) {
  WriteBytes(At("file"), 0, std::vector<uint8_t>(100, 1));
  const File file(At("file"));
  const std::unique_ptr<TreeSearchSource> tree = file.Tree(100);
  tree->Seek(0);
  Result<Span<const Extent>> batch = tree->Read(10);
  ASSERT_TRUE(batch.ok() && batch->size() == 1);
  EXPECT_EQ(Classify((*batch)[0].flags), ExtentClass::kOpaque);
  EXPECT_EQ((*batch)[0].end(), 100u);
}

TEST_F(TreeSearchTest, NoticesItemsThatWereRewrittenAndNoOthers) {
  const auto commit = [this] {
    EXPECT_TRUE(RunCommand("btrfs filesystem sync " + pool_.mount_point()));
  };
  std::vector<uint8_t> bytes(kSize);
  std::mt19937_64 random(Seed());
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  for (uint64_t at = 0; at < kSize; at += 2 * kBlock) {
    WriteBytes(At("file"), at, {bytes.begin(), bytes.begin() + kBlock});
    WriteBytes(At("file"), at + kBlock, {bytes.begin(), bytes.begin() + kBlock});
    if (at % (256 * kBlock) == 0) commit();
  }
  commit();
  const File file(At("file"));
  const std::unique_ptr<TreeSearchSource> tree = file.Tree();
  // The next change belongs to a later transaction, whatever the file system has begun on its own.
  const auto committed = [&file] {
    uint64_t transaction = 0;
    for (const unsigned long request : {BTRFS_IOC_START_SYNC, BTRFS_IOC_WAIT_SYNC}) {
      EXPECT_OK(Ioctl(file.fd.get(), request, &transaction, "sync", file.path));
    }
    return transaction;
  };
  const auto unchanged = [&tree](uint64_t since) { return ValueOf(tree->IsUnchangedSince(since)); };
  const uint64_t start = committed() + 1;
  EXPECT_TRUE(unchanged(start));
  EXPECT_FALSE(unchanged(0));
  // A neighbour in the same leaf.
  for (int i = 0; i < 10; i++) WriteBytes(At("other"), 0, {1, 2, 3});
  commit();
  EXPECT_TRUE(unchanged(start));
  EXPECT_TRUE(RunCommand("btrfs filesystem defragment -f " + At("file")));
  commit();
  EXPECT_FALSE(unchanged(start));
  WriteBytes(At("other"), 0, {4});
  const uint64_t later = committed() + 1;
  EXPECT_TRUE(unchanged(later));
  WriteBytes(At("file"), 5 * kBlock, std::vector<uint8_t>(kBlock, 9));
  EXPECT_OK(SyncFd(file.fd.get(), file.path));
  EXPECT_FALSE(unchanged(later));
}

TEST_F(TreeSearchTest, IsNotUsedOnOtherFileSystems) {
  const Pool pool("xfs");
  WriteBytes(pool.At("file"), 0, std::vector<uint8_t>(kBlock, 1));
  const File file(pool.At("file"));
  ASSERT_VALUE(source, TreeSearchSource::Open(file.fd.get(), file.path, kBlock));
  EXPECT_EQ(source, nullptr);
}

}  // namespace
}  // namespace blockdelta::test
