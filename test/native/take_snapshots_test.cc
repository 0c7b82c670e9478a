// Snapshots and clones of one volume: attached, mounted and broken.
#include "native/device/take_snapshots.h"

#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>

#include "native/device/freeze.h"
#include "native/device/source_volume.h"
#include "test/native/pool.h"
#include "test/native/status_assertions.h"
#include "test/native/volume.h"

namespace blockdelta {
namespace {

constexpr uint64_t kSize = 64 << 20;

// A volume in a pool of its own, with a mounted file system.
struct Bench {
  explicit Bench(const std::string& kind = "ext4", uint64_t size_bytes = kSize)
      : pool(test::Pool::Make("xfs")) {
    if (pool != nullptr) volume = test::Volume::Make(*pool, "volume", kind, size_bytes);
  }
  bool ready() const { return volume != nullptr; }
  std::string At(const std::string& name) const { return pool->At(name); }
  Result<TakenSnapshots> Take(const NewSnapshotFile& member) const {
    return TakeSnapshots({member});
  }

  std::unique_ptr<test::Pool> pool;
  std::unique_ptr<test::Volume> volume;
  test::TempDirectory directory;
};

TEST(TakeSnapshotTest, FreezesAMountedVolumeAndHasItsLatestWrites) {
  const Bench bench;
  if (!bench.ready()) return;
  test::WriteBytes(bench.volume->mount_point() + "/file", 0, {1, 2, 3});
  Result<TakenSnapshots> outcome = bench.Take(bench.volume->Member("snapshot"));
  ASSERT_OK(outcome);
  EXPECT_GT(outcome->frozen_ns, 0u);
  EXPECT_LT(ClockNs(CLOCK_REALTIME) - outcome->taken_at_ns, 60'000'000'000);
  EXPECT_TRUE(bench.volume->IsThawed());
  const std::string snapshot = bench.At("snapshot");
  struct stat state = {};
  EXPECT_EQ(stat(snapshot.c_str(), &state), 0);
  EXPECT_EQ(state.st_mode & 07777u, 0400u);
  EXPECT_TRUE((*StateOfFile(snapshot))->immutable);
  EXPECT_FALSE(test::Exists(snapshot + ".tmp"));
  const std::string other = bench.directory.At("other");
  EXPECT_TRUE(
      test::RunCommand("mkdir " + other + " && mount -o ro,loop " + snapshot + " " + other));
  EXPECT_EQ(test::ReadBytes(other + "/file"), std::vector<uint8_t>({1, 2, 3}));
  EXPECT_TRUE(test::RunCommand("umount " + other));
}

TEST(TakeSnapshotTest, FreezesAMountedBtrfsFoundByItsDevice) {
  const Bench bench("btrfs", 128 << 20);
  if (!bench.ready()) return;
  Result<TakenSnapshots> outcome = bench.Take(bench.volume->Member("snapshot"));
  ASSERT_OK(outcome);
  EXPECT_GT(outcome->frozen_ns, 0u);
  EXPECT_TRUE(bench.volume->IsThawed());
  const auto other = test::Volume::Make(*bench.pool, "other", "", kSize);
  if (other == nullptr) return;
  NewSnapshotFile member = other->Member("second");
  member.freeze_path = bench.volume->mount_point();
  EXPECT_CODE(bench.Take(member), "ESTALE");
}

TEST(TakeSnapshotTest, HasWhatWasWrittenToAnAttachedDevice) {
  const Bench bench("");
  if (!bench.ready()) return;
  // The last one who closes a device writes its page cache back.
  Result<UniqueFd> held = OpenPath(bench.volume->loop(), O_RDONLY);
  ASSERT_OK(held);
  test::WriteBytes(bench.volume->loop(), kSize - 4096, std::vector<uint8_t>(4096, 9));
  Result<TakenSnapshots> outcome = bench.Take(bench.volume->Member("snapshot"));
  ASSERT_OK(outcome);
  EXPECT_EQ(outcome->frozen_ns, 0u);
  const std::vector<uint8_t> bytes = test::ReadBytes(bench.At("snapshot"));
  EXPECT_TRUE(bytes.size() == kSize && bytes[kSize - 4096] == 9 && bytes[kSize - 1] == 9);
}

TEST(TakeSnapshotTest, HasASealThatALaterWriteBreaks) {
  const Bench bench("");
  if (!bench.ready()) return;
  ASSERT_OK(bench.Take(bench.volume->Member("snapshot")));
  const SnapshotIdentity snapshot = test::IdentityOf(bench.At("snapshot"));
  EXPECT_OK(SnapshotFile::Open(snapshot));
  EXPECT_OK(test::SetImmutable(snapshot.path, false));
  test::WriteBytes(snapshot.path, 0, {1});
  EXPECT_OK(test::SetImmutable(snapshot.path, true));
  EXPECT_CODE(SnapshotFile::Open(snapshot), "SCAN_MUTABLE");
}

TEST(TakeSnapshotTest, RefusesADeviceLockedByAToolAndLocksOutTools) {
  const Bench bench("");
  if (!bench.ready()) return;
  const NewSnapshotFile member = bench.volume->Member("snapshot");
  {
    Result<UniqueFd> tool = OpenPath(bench.volume->loop(), O_RDONLY);
    ASSERT_OK(tool);
    ASSERT_EQ(flock(tool->get(), LOCK_EX | LOCK_NB), 0);
    Result<TakenSnapshots> taken = bench.Take(member);
    EXPECT_CODE(taken, "EBUSY");
    EXPECT_EQ(taken.status().failure().syscall, "flock");
    EXPECT_EQ(taken.status().failure().path, bench.volume->path());
    EXPECT_CODE(CloneVolume(member, kSize), "EBUSY");
    EXPECT_TRUE(!test::Exists(bench.At("snapshot")) && !test::Exists(bench.At("snapshot.tmp")));
  }
  Result<SourceVolume> source = SourceVolume::Open(member);
  Result<UniqueFd> tool = OpenPath(bench.volume->loop(), O_RDONLY);
  ASSERT_OK(source);
  ASSERT_OK(tool);
  EXPECT_TRUE(flock(tool->get(), LOCK_EX | LOCK_NB) == -1 && errno == EWOULDBLOCK);
  // Processes that only read the device, such as udev, do not conflict.
  EXPECT_EQ(flock(tool->get(), LOCK_SH | LOCK_NB), 0);
  EXPECT_OK(bench.Take(member));
}

TEST(TakeSnapshotTest, NeverReplacesASnapshot) {
  const Bench bench;
  if (!bench.ready()) return;
  EXPECT_OK(bench.Take(bench.volume->Member("snapshot")));
  EXPECT_CODE(bench.Take(bench.volume->Member("snapshot")), "EEXIST");
  EXPECT_TRUE((*StateOfFile(bench.At("snapshot")))->immutable);
}

TEST(TakeSnapshotTest, RefusesAFrozenFileSystemAndLeavesItFrozen) {
  const Bench bench;
  if (!bench.ready()) return;
  EXPECT_TRUE(test::RunCommand("fsfreeze -f " + bench.volume->mount_point()));
  EXPECT_CODE(bench.Take(bench.volume->Member("snapshot")), "EBUSY");
  EXPECT_FALSE(test::Exists(bench.At("snapshot.tmp")));
  Result<bool> thawed = ThawPath(bench.volume->mount_point());
  ASSERT_OK(thawed);
  EXPECT_TRUE(*thawed);
}

TEST(TakeSnapshotTest, FreezesOnlyTheFileSystemOnTheVolumesOwnDevice) {
  const Bench bench;
  if (!bench.ready()) return;
  const NewSnapshotFile once = bench.volume->Member("snapshot");
  NewSnapshotFile member = once;
  // The pool itself: with it frozen the clone would wait for ever.
  member.freeze_path = bench.pool->mount_point();
  EXPECT_CODE(bench.Take(member), "ESTALE");
  // A mount point that nothing is mounted on any more.
  EXPECT_TRUE(bench.volume->Unmount());
  EXPECT_CODE(bench.Take(once), "ESTALE");
  member.loop_path.reset();
  EXPECT_CODE(bench.Take(member), "EINVAL");
  EXPECT_FALSE(test::Exists(bench.At("snapshot.tmp")));
}

TEST(TakeSnapshotTest, RefusesALoopDeviceThatNowHasAnotherFile) {
  const Bench bench;
  if (!bench.ready()) return;
  NewSnapshotFile member = bench.volume->Member("snapshot");
  member.source_path = bench.At("other-volume");
  EXPECT_OK(CreateSparseFile({member.source_path + ".tmp", member.source_path}, kSize));
  EXPECT_CODE(bench.Take(member), "ESTALE");
}

TEST(TakeSnapshotTest, ThawsAndLeavesNothingWhenTheCloneFails) {
  const Bench bench;
  if (!bench.ready()) return;
  NewSnapshotFile member = bench.volume->Member("snapshot");
  // On another file system: cloning into it cannot work.
  member.names = {bench.directory.At("snapshot.tmp"), bench.directory.At("snapshot")};
  EXPECT_CODE(bench.Take(member), "EXDEV");
  EXPECT_TRUE(bench.volume->IsThawed());
  EXPECT_TRUE(!test::Exists(member.names.temporary) && !test::Exists(member.names.final));
}

TEST(TakeSnapshotTest, ClonesAMountedVolumeWithZerosBehindItsEnd) {
  const Bench bench;
  if (!bench.ready()) return;
  test::WriteBytes(bench.volume->mount_point() + "/file", 0, {1, 2, 3});
  const NewSnapshotFile member = bench.volume->Member("clone");
  EXPECT_CODE(CloneVolume(member, kSize - 1), "EINVAL");
  EXPECT_FALSE(test::Exists(bench.At("clone.tmp")));
  Result<TakenSnapshots> outcome = CloneVolume(member, kSize + 8192);
  ASSERT_OK(outcome);
  EXPECT_TRUE(outcome->frozen_ns > 0 && bench.volume->IsThawed());
  Result<std::optional<FileState>> state = StateOfFile(bench.At("clone"));
  ASSERT_OK(state);
  ASSERT_TRUE(state->has_value());
  EXPECT_FALSE((*state)->immutable);
  EXPECT_EQ((*state)->size_bytes, kSize + 8192);
  struct stat mode = {};
  EXPECT_EQ(stat(bench.At("clone").c_str(), &mode), 0);
  EXPECT_EQ(mode.st_mode & 07777u, 0600u);
  const std::vector<uint8_t> bytes = test::ReadBytes(bench.At("clone"));
  EXPECT_TRUE(bytes[kSize] == 0 && bytes[kSize + 8191] == 0);
  EXPECT_CODE(CloneVolume(member, kSize + 8192), "EEXIST");
  const std::string other = bench.directory.At("other");
  EXPECT_TRUE(test::RunCommand("mkdir " + other + " && mount -o loop " + bench.At("clone") + " " +
                               other + " && touch " + other + "/new"));
  EXPECT_EQ(test::ReadBytes(other + "/file"), std::vector<uint8_t>({1, 2, 3}));
  EXPECT_FALSE(test::Exists(bench.volume->mount_point() + "/new"));
  EXPECT_TRUE(test::RunCommand("umount " + other));
}

TEST(TakeSnapshotTest, ClonesADetachedVolumeWithoutADevice) {
  const Bench bench("");
  if (!bench.ready()) return;
  NewSnapshotFile member = bench.volume->Member("clone");
  member.loop_path.reset();
  Result<TakenSnapshots> outcome = CloneVolume(member, kSize);
  ASSERT_OK(outcome);
  EXPECT_EQ(outcome->frozen_ns, 0u);
}

}  // namespace
}  // namespace blockdelta
