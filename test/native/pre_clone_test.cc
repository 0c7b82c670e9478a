// Clones that are made ahead of a freeze: equal to the source byte by byte, whatever was written
// meanwhile, and made again where anything is in doubt.
#include "native/device/pre_clone.h"

#include <gtest/gtest.h>
#include <linux/fs.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <random>

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
class Source {
 public:
  explicit Source(const Pool& pool)
      : path_(MakeFile(pool.At("volume"), kSize)), fd_(Open(path_, O_RDWR)), random_(Seed()) {
    for (uint64_t block = 0; block < kBlocks; block += 2) Write(block, 1);
    EXPECT_OK(SyncFd(fd_.get(), path_));
  }

  void Write(uint64_t block, uint64_t count) {
    const std::vector<uint8_t> bytes(count * kBlock, static_cast<uint8_t>(random_() | 1));
    const auto size = static_cast<ssize_t>(bytes.size());
    EXPECT_EQ(pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(block * kBlock)),
              size);
  }

  // Writes, holes, zeros and preallocations at random; a few fsyncs.
  void Step() {
    const uint64_t count = 1 + random_() % 8;
    const uint64_t block = random_() % (kBlocks - count);
    const auto allocate = [&](int mode) {
      EXPECT_EQ(fallocate(fd_.get(), mode, static_cast<off_t>(block * kBlock),
                          static_cast<off_t>(count * kBlock)),
                0);
    };
    switch (random_() % 12) {
      case 0:
        return allocate(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
      case 1:
        return allocate(FALLOC_FL_ZERO_RANGE);
      case 2:
        return allocate(0);
      case 3:
        EXPECT_OK(SyncFd(fd_.get(), path_));
        return;
      default:
        Write(block, count);
    }
  }

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  const UniqueFd fd_;
  std::mt19937_64 random_;
};

// Works on a source until it is paused; a pause is what a freeze is.
class Worker {
 public:
  explicit Worker(Source* source)
      : background_([this, source] {
          const std::lock_guard<std::mutex> lock(mutex_);
          source->Step();
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
  EXPECT_TRUE(ReadBytes(source.path()) == ReadBytes(clone.temporary()));
}

class PreCloneTest : public InXfs {};

TEST_F(PreCloneTest, HoldsWhatTheSourceHoldsWhenItsWriterIsPaused) {
  for (const char* const options : {"", "-b size=1024"}) {
    const auto pool = Pool::Make("xfs", "", options);
    if (pool == nullptr) return;
    Source source(*pool);
    const int rounds = IsNightly() ? 60 : 3;
    for (int round = 0; round < rounds; round++) {
      ASSERT_VALUE(clone, NewClone(*pool));
      PreClone pre_clone(source.fd(), source.path(), &clone);
      Worker worker(&source);
      for (int tries = 0; tries <= round % 2; tries++) {
        pre_clone.Prepare();
        EXPECT_TRUE(IsImmutable(clone));
        worker.Progress();
      }
      const std::lock_guard<std::mutex> pause(worker.mutex());
      EXPECT_OK(SyncFd(source.fd(), source.path()));
      EXPECT_OK(pre_clone.Complete());
      EXPECT_GT(pre_clone.completed_ranges(), 1u);
      EXPECT_FALSE(IsImmutable(clone));
      ExpectEqual(source, clone);
    }
  }
}

TEST_F(PreCloneTest, ClonesTheWholeFileWhereTheCloneMayHaveChanged) {
  Source source(*pool_);
  for (const bool rewrites : {false, true}) {
    ASSERT_VALUE(clone, NewClone(*pool_));
    PreClone pre_clone(source.fd(), source.path(), &clone);
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
    Source source(*pool_);
    const off_t end = (kBlocks - 2) * kBlock + 700;
    EXPECT_TRUE(grows || ftruncate(source.fd(), end) == 0);
    ASSERT_VALUE(clone, NewClone(*pool_));
    PreClone pre_clone(source.fd(), source.path(), &clone);
    pre_clone.Prepare();
    if (grows) {
      EXPECT_EQ(ftruncate(source.fd(), kSize + 5 * kBlock), 0);
      source.Write(kBlocks + 2, 1);
    } else {
      EXPECT_EQ(pwrite(source.fd(), "end", 3, end - 3), 3);
    }
    EXPECT_OK(SyncFd(source.fd(), source.path()));
    EXPECT_OK(pre_clone.Complete());
    EXPECT_TRUE(!grows || pre_clone.completed_ranges() == 1);
    ExpectEqual(source, clone);
    EXPECT_OK(RemoveFile(source.path()));
  }
}

TEST_F(PreCloneTest, ChangesNothingAheadForFewExtentsOrOnBtrfs) {
  for (const char* const kind : {"xfs", "btrfs"}) {
    const auto pool = Pool::Make(kind);
    if (pool == nullptr) return;
    Source source(*pool);
    if (kind == std::string("xfs")) {
      EXPECT_EQ(ftruncate(source.fd(), 100 * kBlock), 0);
    }
    ASSERT_VALUE(clone, NewClone(*pool));
    PreClone pre_clone(source.fd(), source.path(), &clone);
    pre_clone.Prepare();
    EXPECT_EQ(ReadBytes(clone.temporary()).size(), 0u);
    EXPECT_OK(pre_clone.Complete());
    EXPECT_EQ(pre_clone.completed_ranges(), 1u);
    ExpectEqual(source, clone);
  }
}

TEST_F(PreCloneTest, LeavesAFileThatCanBeRemovedIfItIsNotCompleted) {
  Source source(*pool_);
  {
    ASSERT_VALUE(clone, NewClone(*pool_));
    PreClone pre_clone(source.fd(), source.path(), &clone);
    pre_clone.Prepare();
  }
  EXPECT_FALSE(Exists(At("clone.tmp")));
}

}  // namespace
}  // namespace blockdelta::test
