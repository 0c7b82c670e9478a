// Files and devices as sources of blocks: they give the same, and end where they end.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "native/base/posix.h"
#include "native/thin/block_source.h"
#include "native/thin/file_source.h"
#include "native/thin/run_reader.h"
#include "test/native/pool.h"
#include "test/native/random_seed.h"
#include "test/native/status_assertions.h"

namespace blockdelta::test {
namespace {

constexpr uint64_t kBlocks = 3000;

uint8_t PatternByte(uint64_t number, size_t at) {
  return static_cast<uint8_t>(number * 7 + (number >> 8) * 13 + at * 31 + at / 512);
}

// A file whose blocks contain their numbers.
std::string MakeBlocks(const std::string& path, uint64_t bytes) {
  std::vector<char> content(bytes);
  for (uint64_t i = 0; i < bytes; i++) {
    content[i] = static_cast<char>(PatternByte(i / kMetadataBlockBytes, i % kMetadataBlockBytes));
  }
  std::ofstream(path, std::ios::binary).write(content.data(), static_cast<std::streamsize>(bytes));
  return path;
}

bool IsBlock(const uint8_t* bytes, uint64_t number) {
  for (size_t i = 0; i < kMetadataBlockBytes; i++) {
    if (bytes[i] != PatternByte(number, i)) return false;
  }
  return true;
}

// Different numbers: a run, a few, or many, in any order.
std::vector<uint64_t> RandomNumbers(std::mt19937_64* random) {
  std::vector<uint64_t> numbers(kBlocks);
  for (uint64_t i = 0; i < kBlocks; i++) numbers[i] = i;
  const size_t first = (*random)() % kBlocks;
  if ((*random)() % 3 == 0) {
    std::rotate(numbers.begin(), numbers.begin() + static_cast<long>(first), numbers.end());
  } else {
    std::shuffle(numbers.begin(), numbers.end(), *random);
  }
  const size_t limits[] = {2, 65, 130, 800, kBlocks};
  numbers.resize((*random)() % (limits[(*random)() % 5] + 1));
  return numbers;
}

void ReadRandomBatches(BlockSource* source) {
  std::mt19937_64 random(Seed());
  EXPECT_EQ(source->block_count(), kBlocks);
  BlockBuffer buffer(kBlocks);
  for (int round = 0; round < (IsNightly() ? 1000 : 60); round++) {
    const std::vector<uint64_t> numbers = RandomNumbers(&random);
    std::fill(buffer.data(), buffer.block(numbers.size()), uint8_t{0xee});
    ASSERT_OK(source->Read({numbers.data(), numbers.size()}, buffer.data()));
    bool right = true;
    for (size_t i = 0; i < numbers.size(); i++) right &= IsBlock(buffer.block(i), numbers[i]);
    ASSERT_TRUE(right);
  }
}

// A loop device over a file while it lives.
class Loop {
 public:
  explicit Loop(const std::string& file) : path_(file + ".loop") {
    GTEST_CHECK_(RunCommand("ln -s \"$(losetup --find --show " + file + ")\" " + path_));
  }
  ~Loop() { RunCommand("losetup --detach \"$(readlink " + path_ + ")\""); }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

class ThinSourceTest : public InDirectory {};

TEST_F(ThinSourceTest, ReadsTheBlocksOfAFileOrADeviceInAnyOrderEachInItsPlace) {
  const std::string path = MakeBlocks(At("blocks"), kBlocks * kMetadataBlockBytes);
  const Loop loop(path);
  ASSERT_VALUE(cached, FileSource::Open(path));
  ReadRandomBatches(&cached);
  Result<DirectSource> direct = DirectSource::Open(path);
  // Not every file system can.
  if (!direct.status().IsErrno(EINVAL)) {
    ASSERT_OK(direct);
    ReadRandomBatches(&*direct);
  }
  ASSERT_VALUE(device, OpenBlockSource(loop.path()));
  EXPECT_GT(device->batch_blocks(), 1000);
  ReadRandomBatches(device.get());
}

TEST_F(ThinSourceTest, SeesWhatIsWrittenToADevicePastItsPageCache) {
  const Loop loop(MakeBlocks(At("blocks"), 16 * kMetadataBlockBytes));
  // The page cache of the device has the old content.
  RunCommand("dd if=" + loop.path() + " of=/dev/null bs=64k");
  ASSERT_VALUE(source, OpenBlockSource(loop.path()));
  EXPECT_TRUE(RunCommand("tr '\\0' '\\252' </dev/zero | dd of=" + At("blocks") +
                         " bs=4096 count=1 iflag=fullblock conv=notrunc,fsync"));
  BlockBuffer buffer(1);
  const uint64_t number = 0;
  EXPECT_OK(source->Read({&number, 1}, buffer.data()));
  EXPECT_EQ(static_cast<int>(buffer.data()[100]), 0xaa);
}

TEST_F(ThinSourceTest, RefusesABlockNumberBeyondTheEndOfAFileOrADevice) {
  const std::string path = MakeBlocks(At("blocks"), 10 * kMetadataBlockBytes + 100);
  ASSERT_VALUE(source, OpenBlockSource(path));
  EXPECT_EQ(source->block_count(), 10u);
  BlockBuffer buffer(2);
  for (const uint64_t number : {uint64_t{10}, uint64_t{1} << 52, UINT64_MAX}) {
    const uint64_t numbers[] = {3, number};
    const Status status = source->Read({numbers, 2}, buffer.data());
    EXPECT_CODE(status, "THIN_METADATA_INVALID");
    EXPECT_EQ(MessageOf(status), "block " + std::to_string(number) + " of " + path +
                                     ": expected to be one of the 10 blocks there are");
  }
}

TEST_F(ThinSourceTest, NamesTheBlockAtWhichAFileWasTruncatedWhileItWasRead) {
  const std::string path = MakeBlocks(At("blocks"), 200 * kMetadataBlockBytes);
  ASSERT_VALUE(source, FileSource::Open(path));
  std::vector<uint64_t> numbers;
  for (uint64_t i = 90; i < 110; i++) numbers.push_back(i);
  BlockBuffer buffer(numbers.size());
  for (const off_t bytes : {100 * 4096 + 1, 100 * 4096, 90 * 4096, 0}) {
    ASSERT_EQ(truncate(path.c_str(), bytes), 0);
    const Status status = source.Read({numbers.data(), numbers.size()}, buffer.data());
    EXPECT_CODE(status, "THIN_METADATA_INVALID");
    const std::string block = "block " + std::to_string(std::max<off_t>(90, bytes / 4096)) + " of ";
    EXPECT_EQ(MessageOf(status).substr(0, block.size()), block);
  }
  const uint64_t first = 0;
  EXPECT_CODE(source.Read({&first, 1}, buffer.data()), "THIN_METADATA_INVALID");
}

// Reads blocks of a file with gaps of at most 4 blocks, in one thread.
Status ReadWithGaps(const UniqueFd& fd, const std::vector<uint64_t>& numbers, BlockBuffer* buffer) {
  return ReadBlocks({fd.get(), "file", kBlocks, 4}, {numbers.data(), numbers.size()}, 1,
                    buffer->data());
}

// Every `step`th block, `count` of them.
std::vector<uint64_t> EveryBlock(uint64_t step, uint64_t count) {
  std::vector<uint64_t> numbers;
  for (uint64_t i = 0; i < count; i++) numbers.push_back(i * step);
  return numbers;
}

// System calls of this process that read, so far; 0 if the kernel does not count them.
uint64_t ReadCalls() {
  std::ifstream counters("/proc/self/io");
  std::string name;
  uint64_t value = 0;
  while (counters >> name >> value) {
    if (name == "syscr:") return value;
  }
  return 0;
}

TEST_F(ThinSourceTest, ReadsAcrossShortGapsButNotAcrossLongOnes) {
  const std::string path = MakeBlocks(At("blocks"), kBlocks * kMetadataBlockBytes);
  const UniqueFd fd = Open(path, O_RDONLY);
  BlockBuffer buffer(kBlocks);
  if (ReadCalls() == 0) GTEST_SKIP() << "the kernel does not count system calls";
  const auto calls = [&](const std::vector<uint64_t>& numbers) {
    const uint64_t before = ReadCalls();
    const uint64_t counting = ReadCalls() - before;
    const uint64_t start = ReadCalls();
    EXPECT_OK(ReadWithGaps(fd, numbers, &buffer));
    const uint64_t calls = ReadCalls() - start - counting;
    for (size_t i = 0; i < numbers.size(); i++) EXPECT_TRUE(IsBlock(buffer.block(i), numbers[i]));
    return calls;
  };
  // At most 64 blocks a call, with those between.
  EXPECT_EQ(calls(EveryBlock(1, 128)), 2u);
  EXPECT_EQ(calls(EveryBlock(5, 13)), 1u);
  EXPECT_EQ(calls(EveryBlock(5, 26)), 2u);
  EXPECT_EQ(calls(EveryBlock(6, 26)), 26u);
  EXPECT_EQ(calls({7, 7, 8, 7}), 3u);
  // The block at which a file was truncated is named also where gaps are read.
  ASSERT_EQ(truncate(path.c_str(), 31 * 4096 + 100), 0);
  EXPECT_OK(ReadWithGaps(fd, EveryBlock(5, 7), &buffer));
  EXPECT_TRUE(IsBlock(buffer.block(6), 30));
  const Status status = ReadWithGaps(fd, EveryBlock(5, 12), &buffer);
  EXPECT_CODE(status, "THIN_METADATA_INVALID");
  EXPECT_EQ(MessageOf(status).rfind("block 35 of ", 0), 0u);
}

TEST_F(ThinSourceTest, OpensOnlyFilesAndBlockDevices) {
  EXPECT_CODE(OpenBlockSource(At("nothing")), "ENOENT");
  EXPECT_CODE(OpenBlockSource("/dev/null"), "EINVAL");
  EXPECT_CODE(OpenBlockSource(At(".")), "EINVAL");
  const std::string fifo = At("fifo");
  EXPECT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_CODE(OpenBlockSource(fifo), "EINVAL");
  EXPECT_CODE(FileSource::Open("/dev/null"), "EINVAL");
}

TEST_F(ThinSourceTest, NamesTheUnreadableBlockOfADeviceAndNoneOfItsNeighbours) {
  const std::string path = MakeBlocks(At("blocks"), 256 * kMetadataBlockBytes);
  const Loop loop(path);
  // A loop device fails where its file has nothing any more.
  EXPECT_EQ(truncate(path.c_str(), 100 * kMetadataBlockBytes), 0);
  ASSERT_VALUE(source, OpenBlockSource(loop.path()));
  std::vector<uint64_t> numbers;
  for (uint64_t i = 80; i < 130; i++) numbers.push_back(i);
  BlockBuffer buffer(numbers.size());
  const Status status = source->Read({numbers.data(), numbers.size()}, buffer.data());
  EXPECT_CODE(status, "EIO");
  EXPECT_NE(MessageOf(status).find("block 100"), std::string::npos);
  EXPECT_OK(source->Read({numbers.data(), 20}, buffer.data()));
}

}  // namespace
}  // namespace blockdelta::test
