// Clones that are made ahead of a freeze: equal to the source byte by byte, whatever was written
// meanwhile, and made again where anything is in doubt.
#include "native/device/pre_clone.h"

#include <gtest/gtest.h>
#include <linux/fs.h>
#include <unistd.h>

#include <atomic>
#include <mutex>

#include "native/device/take_snapshots.h"
#include "test/native/pool.h"
#include "test/native/random_seed.h"
#include "test/native/status_assertions.h"

namespace blockdelta::test {
namespace {

constexpr uint64_t kBlock = 4096;
constexpr uint64_t kBlocks = 6000;
constexpr uint64_t kSize = kBlocks * kBlock;

// A file in a pool, in more pieces than a plain clone is used for.
struct Source {
  explicit Source(const Pool& pool)
      : path(MakeFile(pool.At("volume"), kSize)), fd(Open(path, O_RDWR)), writer(path, Seed()) {
    const std::vector<uint8_t> bytes(kBlock, 1);
    for (uint64_t block = 0; block < kBlocks; block += 2) WriteBytes(path, block * kBlock, bytes);
    EXPECT_OK(SyncFd(fd.get(), path));
  }

  std::string path;
  UniqueFd fd;
  RandomWriter writer;
};

// Works on a source until it is paused; a pause is what a freeze is.
class Worker {
 public:
  explicit Worker(Source* source)
      : background_([this, source] {
          const std::lock_guard<std::mutex> lock(mutex_);
          source->writer.Step();
          steps_++;
        }) {}

  std::mutex& mutex() { return mutex_; }
  // Waits until a few dozen blocks were written.
  void Progress() const {
    const uint64_t now = steps_;
    while (steps_ < now + 50) SleepMs(1);
  }

 private:
  std::mutex mutex_;
  std::atomic<uint64_t> steps_ = 0;
  Background background_;
};

Result<NewFile> NewClone(const Pool& pool) { return NewFile::Create(Names(pool.At("clone"))); }

bool IsImmutable(const NewFile& file) {
  int flags = 0;
  EXPECT_OK(Ioctl(file.fd(), FS_IOC_GETFLAGS, &flags, "FS_IOC_GETFLAGS", file.temporary()));
  return (flags & FS_IMMUTABLE_FL) != 0;
}

void ExpectEqual(const Source& source, const NewFile& clone) {
  EXPECT_TRUE(ReadBytes(source.path) == ReadBytes(clone.temporary()));
}

class PreCloneTest : public InXfs {};

TEST_F(PreCloneTest, HoldsWhatTheSourceHoldsWhenItsWriterIsPaused) {
  for (const char* const options : {"", "-b size=1024"}) {
    const Pool pool("xfs", "", options);
    Source source(pool);
    const int rounds = IsNightly() ? 60 : 3;
    for (int round = 0; round < rounds; round++) {
      ASSERT_VALUE(clone, NewClone(pool));
      PreClone pre_clone(source.fd.get(), source.path, &clone);
      Worker worker(&source);
      for (int tries = 0; tries <= round % 2; tries++) {
        pre_clone.Prepare();
        EXPECT_TRUE(IsImmutable(clone));
        worker.Progress();
      }
      const std::lock_guard<std::mutex> pause(worker.mutex());
      EXPECT_OK(SyncFd(source.fd.get(), source.path));
      EXPECT_OK(pre_clone.Complete());
      EXPECT_GT(pre_clone.completed_ranges(), 1u);
      EXPECT_FALSE(IsImmutable(clone));
      ExpectEqual(source, clone);
    }
  }
}

TEST_F(PreCloneTest, ClonesTheWholeFileWhereTheCloneMayHaveChanged) {
  Source source(pool_);
  for (const bool rewrites : {false, true}) {
    ASSERT_VALUE(clone, NewClone(pool_));
    PreClone pre_clone(source.fd.get(), source.path, &clone);
    pre_clone.Prepare();
    // Change times of older kernels have the grain of the timer, 10 ms at most.
    SleepMs(20);
    EXPECT_OK(SetImmutableFd(clone.fd(), false, clone.temporary()));
    if (rewrites) WriteBytes(clone.temporary(), 0, std::vector<uint8_t>(kBlock, 0));
    EXPECT_OK(SetImmutableFd(clone.fd(), true, clone.temporary()));
    EXPECT_OK(pre_clone.Complete());
    EXPECT_EQ(pre_clone.completed_ranges(), 1u);
    ExpectEqual(source, clone);
  }
}

TEST_F(PreCloneTest, ClonesAFileWhoseSizeChangedOrThatEndsWithinABlock) {
  for (const bool grows : {true, false}) {
    Source source(pool_);
    const off_t end = (kBlocks - 2) * kBlock + 700;
    EXPECT_TRUE(grows || ftruncate(source.fd.get(), end) == 0);
    ASSERT_VALUE(clone, NewClone(pool_));
    PreClone pre_clone(source.fd.get(), source.path, &clone);
    pre_clone.Prepare();
    if (grows) {
      EXPECT_EQ(ftruncate(source.fd.get(), kSize + 5 * kBlock), 0);
      WriteBytes(source.path, (kBlocks + 2) * kBlock, std::vector<uint8_t>(kBlock, 9));
    } else {
      EXPECT_EQ(pwrite(source.fd.get(), "end", 3, end - 3), 3);
    }
    EXPECT_OK(SyncFd(source.fd.get(), source.path));
    EXPECT_OK(pre_clone.Complete());
    EXPECT_TRUE(!grows || pre_clone.completed_ranges() == 1);
    ExpectEqual(source, clone);
    EXPECT_OK(RemoveFile(source.path));
  }
}

TEST_F(PreCloneTest, ChangesNothingAheadForFewExtentsOrOnBtrfs) {
  for (const char* const kind : {"xfs", "btrfs"}) {
    const Pool pool(kind);
    Source source(pool);
    if (kind == std::string("xfs")) {
      EXPECT_EQ(ftruncate(source.fd.get(), 100 * kBlock), 0);
    }
    ASSERT_VALUE(clone, NewClone(pool));
    PreClone pre_clone(source.fd.get(), source.path, &clone);
    pre_clone.Prepare();
    EXPECT_EQ(ReadBytes(clone.temporary()).size(), 0u);
    EXPECT_OK(pre_clone.Complete());
    EXPECT_EQ(pre_clone.completed_ranges(), 1u);
    ExpectEqual(source, clone);
  }
}

TEST_F(PreCloneTest, LeavesAFileThatCanBeRemovedIfItIsNotCompleted) {
  Source source(pool_);
  {
    ASSERT_VALUE(clone, NewClone(pool_));
    PreClone pre_clone(source.fd.get(), source.path, &clone);
    pre_clone.Prepare();
  }
  EXPECT_FALSE(Exists(At("clone.tmp")));
}

}  // namespace
}  // namespace blockdelta::test
