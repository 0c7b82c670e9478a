// Looking up devices in a pool that commits meanwhile, simulated by an image in memory.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "native/thin/device_lookup.h"
#include "native/thin/metadata_block.h"
#include "native/thin/thin_format.h"
#include "test/native/status_assertions.h"
#include "test/native/thin_image_source.h"
#include "test/native/thin_scenario.h"

namespace blockdelta {
namespace {

// Commits after each of its next reads: another time, in a superblock that leads to the same roots.
class CommittingSource final : public BlockSource {
 public:
  CommittingSource(test::ThinImage* image, unsigned commits) : under_(image), commits_(commits) {}

  const std::string& path() const override { return under_.path(); }
  uint64_t block_count() const override { return under_.block_count(); }
  size_t batch_blocks() const override { return 1; }
  Status Read(Span<const uint64_t> numbers, uint8_t* out) override {
    Status status = under_.Read(numbers, out);
    if (commits_ > 0) Commit();
    return status;
  }

  unsigned commits_left() const { return commits_; }
  uint64_t reads() const { return under_.reads(); }

 private:
  void Commit() {
    commits_--;
    uint8_t* superblock = under_.block(0);
    uint32_t time = ReadLe32(superblock + superblock_format::kTime) + 1;
    std::memcpy(superblock + superblock_format::kTime, &time, sizeof(time));
    const uint32_t checksum = ChecksumOf(superblock, kSuperblockSalt);
    std::memcpy(superblock, &checksum, sizeof(checksum));
  }

  test::ThinImageSource under_;
  unsigned commits_;
};

test::ThinPool SmallPool() {
  test::ThinScenario scenario;
  scenario.mapped = 300;
  scenario.snapshots = 2;
  return test::MakeThinPool(scenario);
}

TEST(ThinLookupTest, ReadsAgainUntilNoCommitComesBetweenItsReads) {
  test::ThinPool pool = SmallPool();
  CommittingSource source(&pool.image, 25);
  Result<DeviceLookup> lookup = LookUpDevices(&source, 0, {2, 3});
  ASSERT_OK(lookup);
  EXPECT_EQ(source.commits_left(), 0u);
  EXPECT_EQ(lookup->devices[0].root, pool.devices[1].root);
  EXPECT_EQ(lookup->devices[1].root, pool.devices[2].root);
  CommittingSource confirmed(&pool.image, 25);
  EXPECT_OK(ConfirmDevices(&confirmed, 0, {{2, pool.devices[1].root}, {3, pool.devices[2].root}}));
  EXPECT_EQ(confirmed.commits_left(), 0u);
}

TEST(ThinLookupTest, FailsWithScanBusyWhenAPoolCommitsWithoutAPause) {
  test::ThinPool pool = SmallPool();
  CommittingSource source(&pool.image, UINT32_MAX);
  EXPECT_CODE(LookUpDevices(&source, 0, {2}), kScanBusy);
  EXPECT_CODE(LookUpDevices(&source, 0, {99}), kScanBusy);
  EXPECT_CODE(ConfirmDevices(&source, 0, {{2, pool.devices[1].root}}), kScanBusy);
}

TEST(ThinLookupTest, ConfirmsTwoRootsByOnePathOfOneTreeEachAndTheSuperblockTwice) {
  test::ThinPool pool = SmallPool();
  CommittingSource source(&pool.image, 0);
  EXPECT_OK(ConfirmDevices(&source, 0, {{2, pool.devices[1].root}, {3, pool.devices[2].root}}));
  EXPECT_EQ(source.reads(), 4u);
  EXPECT_CODE(ConfirmDevices(&source, 0, {{2, pool.devices[0].root}}), kScanReplaced);
  EXPECT_CODE(ConfirmDevices(&source, 0, {{99, pool.devices[0].root}}), kScanReplaced);
  // By a metadata snapshot that is not held any more.
  EXPECT_CODE(ConfirmDevices(&source, 5, {{2, pool.devices[1].root}}), kScanReplaced);
}

}  // namespace
}  // namespace blockdelta
