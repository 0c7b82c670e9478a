// Snapshots and clones of one volume, attached, mounted and broken; and snapshots of several
// volumes at one point in time, while they are being written to.
#include "native/device/take_snapshots.h"

#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "native/device/freeze.h"
#include "native/device/source_volume.h"
#include "test/native/pool.h"
#include "test/native/random_seed.h"
#include "test/native/status_assertions.h"

namespace blockdelta {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kSize = 64 * kMiB;

// Whether none of them is there under either name.
bool NothingLeft(const std::vector<NewSnapshotFile>& members) {
  return std::none_of(members.begin(), members.end(), [](const NewSnapshotFile& member) {
    return test::Exists(member.names.temporary) || test::Exists(member.names.final);
  });
}

class TakeSnapshotTest : public test::InXfs {};

TEST_F(TakeSnapshotTest, FreezesAMountedVolumeAndHasItsLatestWrites) {
  test::Volume* const volume = Make("volume", "ext4", kSize);
  test::WriteBytes(volume->mount_point() + "/file", 0, {1, 2, 3});
  ASSERT_VALUE(outcome, TakeSnapshots({volume->Member("snapshot")}));
  EXPECT_GT(outcome.frozen_ns, 0u);
  EXPECT_LT(ClockNs(CLOCK_REALTIME) - outcome.taken_at_ns, 60'000'000'000);
  EXPECT_TRUE(volume->IsThawed());
  const std::string snapshot = At("snapshot");
  struct stat state = {};
  EXPECT_EQ(stat(snapshot.c_str(), &state), 0);
  EXPECT_EQ(state.st_mode & 07777u, 0400u);
  EXPECT_TRUE((*StateOfFile(snapshot))->immutable);
  EXPECT_FALSE(test::Exists(snapshot + ".tmp"));
  test::WithMounted(snapshot, "ro", [](const std::string& mount) {
    EXPECT_EQ(test::ReadBytes(mount + "/file"), std::vector<uint8_t>({1, 2, 3}));
  });
  EXPECT_CODE(TakeSnapshots({volume->Member("snapshot")}), "EEXIST");
  EXPECT_TRUE((*StateOfFile(snapshot))->immutable);
}

TEST_F(TakeSnapshotTest, FreezesAMountedBtrfsFoundByItsDevice) {
  test::Volume* const volume = Make("volume", "btrfs", 128 << 20);
  ASSERT_VALUE(outcome, TakeSnapshots({volume->Member("snapshot")}));
  EXPECT_GT(outcome.frozen_ns, 0u);
  EXPECT_TRUE(volume->IsThawed());
  NewSnapshotFile member = Make("other", "", kSize)->Member("second");
  member.freeze_path = volume->mount_point();
  EXPECT_CODE(TakeSnapshots({member}), "ESTALE");
}

TEST_F(TakeSnapshotTest, HasWhatWasWrittenToAnAttachedDevice) {
  test::Volume* const volume = Make("volume", "", kSize);
  // The last one who closes a device writes its page cache back.
  Result<UniqueFd> held = OpenPath(volume->loop(), O_RDONLY);
  ASSERT_OK(held);
  test::WriteBytes(volume->loop(), kSize - 4096, std::vector<uint8_t>(4096, 9));
  ASSERT_VALUE(outcome, TakeSnapshots({volume->Member("snapshot")}));
  EXPECT_EQ(outcome.frozen_ns, 0u);
  const std::vector<uint8_t> bytes = test::ReadBytes(At("snapshot"));
  EXPECT_TRUE(bytes.size() == kSize && bytes[kSize - 4096] == 9 && bytes[kSize - 1] == 9);
}

TEST_F(TakeSnapshotTest, HasASealThatALaterWriteBreaks) {
  test::Volume* const volume = Make("volume", "", kSize);
  ASSERT_OK(TakeSnapshots({volume->Member("snapshot")}));
  const SnapshotIdentity snapshot = test::IdentityOf(At("snapshot"));
  EXPECT_OK(SnapshotFile::Open(snapshot));
  EXPECT_OK(test::SetImmutable(snapshot.path, false));
  test::WriteBytes(snapshot.path, 0, {1});
  EXPECT_OK(test::SetImmutable(snapshot.path, true));
  EXPECT_CODE(SnapshotFile::Open(snapshot), "SCAN_MUTABLE");
}

TEST_F(TakeSnapshotTest, RefusesADeviceLockedByAToolAndLocksOutTools) {
  test::Volume* const volume = Make("volume", "", kSize);
  const NewSnapshotFile member = volume->Member("snapshot");
  {
    ASSERT_VALUE(tool, OpenPath(volume->loop(), O_RDONLY));
    ASSERT_EQ(flock(tool.get(), LOCK_EX | LOCK_NB), 0);
    Result<TakenSnapshots> taken = TakeSnapshots({member});
    EXPECT_CODE(taken, "EBUSY");
    EXPECT_EQ(taken.status().failure().syscall, "flock");
    EXPECT_EQ(taken.status().failure().path, volume->path());
    EXPECT_CODE(CloneVolume(member, kSize), "EBUSY");
    EXPECT_TRUE(NothingLeft({member}));
  }
  Result<SourceVolume> source = SourceVolume::Open(member);
  Result<UniqueFd> tool = OpenPath(volume->loop(), O_RDONLY);
  ASSERT_OK(source);
  ASSERT_OK(tool);
  EXPECT_TRUE(flock(tool->get(), LOCK_EX | LOCK_NB) == -1 && errno == EWOULDBLOCK);
  // Processes that only read the device, such as udev, do not conflict.
  EXPECT_EQ(flock(tool->get(), LOCK_SH | LOCK_NB), 0);
  EXPECT_OK(TakeSnapshots({member}));
}

TEST_F(TakeSnapshotTest, RefusesAFrozenFileSystemAndLeavesItFrozen) {
  test::Volume* const volume = Make("volume", "ext4", kSize);
  EXPECT_TRUE(test::RunCommand("fsfreeze -f " + volume->mount_point()));
  EXPECT_CODE(TakeSnapshots({volume->Member("snapshot")}), "EBUSY");
  EXPECT_FALSE(test::Exists(At("snapshot.tmp")));
  ASSERT_VALUE(thawed, ThawPath(volume->mount_point()));
  EXPECT_TRUE(thawed);
}

TEST_F(TakeSnapshotTest, FreezesOnlyTheFileSystemOnTheVolumesOwnDevice) {
  test::Volume* const volume = Make("volume", "ext4", kSize);
  const NewSnapshotFile once = volume->Member("snapshot");
  NewSnapshotFile member = once;
  // The pool itself: with it frozen the clone would wait for ever.
  member.freeze_path = pool_->mount_point();
  EXPECT_CODE(TakeSnapshots({member}), "ESTALE");
  // A mount point that nothing is mounted on any more.
  EXPECT_TRUE(volume->Unmount());
  EXPECT_CODE(TakeSnapshots({once}), "ESTALE");
  member.loop_path.reset();
  EXPECT_CODE(TakeSnapshots({member}), "EINVAL");
  EXPECT_FALSE(test::Exists(At("snapshot.tmp")));
}

TEST_F(TakeSnapshotTest, RefusesALoopDeviceThatNowHasAnotherFile) {
  test::Volume* const volume = Make("volume", "ext4", kSize);
  NewSnapshotFile member = volume->Member("snapshot");
  member.source_path = At("other-volume");
  EXPECT_OK(CreateSparseFile({member.source_path + ".tmp", member.source_path}, kSize));
  EXPECT_CODE(TakeSnapshots({member}), "ESTALE");
}

TEST_F(TakeSnapshotTest, ClonesAMountedVolumeWithZerosBehindItsEnd) {
  test::Volume* const volume = Make("volume", "ext4", kSize);
  test::WriteBytes(volume->mount_point() + "/file", 0, {1, 2, 3});
  NewSnapshotFile member = volume->Member("clone");
  EXPECT_CODE(CloneVolume(member, kSize - 1), "EINVAL");
  EXPECT_FALSE(test::Exists(At("clone.tmp")));
  Result<TakenSnapshots> outcome = CloneVolume(member, kSize + 8192);
  ASSERT_OK(outcome);
  EXPECT_TRUE(outcome->frozen_ns > 0 && volume->IsThawed());
  ASSERT_VALUE(state, StateOfFile(At("clone")));
  ASSERT_TRUE(state.has_value());
  EXPECT_FALSE(state->immutable);
  EXPECT_EQ(state->size_bytes, kSize + 8192);
  struct stat mode = {};
  EXPECT_EQ(stat(At("clone").c_str(), &mode), 0);
  EXPECT_EQ(mode.st_mode & 07777u, 0600u);
  const std::vector<uint8_t> bytes = test::ReadBytes(At("clone"));
  EXPECT_TRUE(bytes[kSize] == 0 && bytes[kSize + 8191] == 0);
  EXPECT_CODE(CloneVolume(member, kSize + 8192), "EEXIST");
  test::WithMounted(At("clone"), "noload", [](const std::string& mount) {
    EXPECT_EQ(test::ReadBytes(mount + "/file"), std::vector<uint8_t>({1, 2, 3}));
  });
  // Without a device, nothing is frozen.
  member = {volume->path(), {At("other.tmp"), At("other")}, {}, {}};
  outcome = CloneVolume(member, kSize);
  ASSERT_OK(outcome);
  EXPECT_EQ(outcome->frozen_ns, 0u);
}

constexpr uint64_t kSmall = 16 * kMiB;
constexpr size_t kBlock = 4096;

// Writes 1, 2, 3... to a number of places, each to one after the other, each durable before the
// next: what is written to the second place depends on what is in the first.
class OrderedWriter {
 public:
  // `flags`: O_DIRECT for devices, 0 for files. `pause_ms`: between two rounds.
  OrderedWriter(const std::vector<std::string>& places, int flags, unsigned pause_ms = 0)
      : pause_ms_(pause_ms) {
    for (const std::string& place : places) {
      Result<UniqueFd> fd = OpenPath(place, O_WRONLY | O_CREAT | flags, 0600);
      EXPECT_OK(fd);
      if (fd.ok()) fds_.push_back(std::move(*fd));
    }
    thread_ = std::thread([this] { Run(); });
  }
  ~OrderedWriter() { Stop(); }

  // How far it came; fails the test if it could not write.
  uint64_t Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    EXPECT_FALSE(broken_);
    return rounds_;
  }
  // Waits until something new was written.
  void Progress() const {
    const uint64_t now = rounds_;
    while (rounds_ < now + 2 && !broken_) SleepMs(1);
  }

 private:
  void Run() {
    const std::unique_ptr<void, void (*)(void*)> block(std::aligned_alloc(kBlock, kBlock), free);
    std::memset(block.get(), 0, kBlock);
    for (uint64_t n = 1; !stop_ && !broken_; n++) {
      std::memcpy(block.get(), &n, sizeof n);
      for (const UniqueFd& fd : fds_) {
        const bool written = pwrite(fd.get(), block.get(), kBlock, 0) == kBlock;
        if (!written || fsync(fd.get()) == -1) broken_ = true;
      }
      rounds_ = n;
      if (pause_ms_ > 0) SleepMs(pause_ms_);
    }
  }

  const unsigned pause_ms_;
  std::vector<UniqueFd> fds_;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> broken_ = false;
  std::atomic<uint64_t> rounds_ = 0;
  std::thread thread_;
};

uint64_t NumberIn(const std::string& path) {
  uint64_t number = 0;
  Result<UniqueFd> fd = OpenPath(path, O_RDONLY);
  EXPECT_OK(fd);
  if (fd.ok()) {
    EXPECT_TRUE(pread(fd->get(), &number, sizeof number, 0) == sizeof number);
  }
  return number;
}

// The number in the file "n" of a snapshot with a file system.
uint64_t NumberInside(const std::string& snapshot, const std::string& options) {
  uint64_t number = 0;
  test::WithMounted(snapshot, options,
                    [&](const std::string& mount) { number = NumberIn(mount + "/n"); });
  return number;
}

// Scatters extents over the volume, so that cloning it takes its time.
void Scatter(const test::Volume& volume) {
  ASSERT_VALUE(fd, OpenPath(volume.path(), O_WRONLY));
  for (uint64_t offset = 2 * kBlock; offset < kSmall; offset += 4 * kBlock) {
    EXPECT_EQ(pwrite(fd.get(), "x", 1, static_cast<off_t>(offset)), 1);
  }
  EXPECT_OK(SyncFd(fd.get(), volume.path()));
}

// Splits the volume's file into thousands of extents: every fourth block of a file inside that a
// snapshot also has is written again. (A block of an ext4 this small covers parts of two of the
// pool's.)
void Split(const test::Volume& volume) {
  constexpr uint64_t kBytes = 24 * kMiB;
  const std::string path = volume.mount_point() + "/split";
  test::WriteBytes(path, 0, std::vector<uint8_t>(kBytes, 1));
  EXPECT_OK(SyncPath(path));
  EXPECT_OK(TakeSnapshots(
      {volume.Member("before-" + volume.path().substr(volume.path().rfind('/') + 1))}));
  for (uint64_t offset = 0; offset < kBytes; offset += 4 * kBlock) {
    test::WriteBytes(path, offset, std::vector<uint8_t>(kBlock, 2));
  }
  EXPECT_OK(SyncPath(path));
  EXPECT_OK(SyncPath(volume.path()));
  ASSERT_VALUE(fd, OpenPath(volume.path(), O_RDONLY));
  struct fsxattr attributes = {};
  EXPECT_OK(Ioctl(fd.get(), FS_IOC_FSGETXATTR, &attributes, "FS_IOC_FSGETXATTR", volume.path()));
  EXPECT_GT(attributes.fsx_nextents, 2000u) << volume.path();
}

class GroupSnapshotsTest : public test::InXfs {
 protected:
  void CheckMounted(bool splits);
  void CheckRaw(unsigned pause_ms, int rounds);
};

// Takes snapshots of two mounted volumes that are written to in turn. `splits`: in so many pieces
// that their files are cloned ahead of the freeze.
void GroupSnapshotsTest::CheckMounted(bool splits) {
  test::Volume* const first = Make("first", "xfs", 320 * kMiB);
  test::Volume* const second = Make("second", "ext4", kSize);
  if (splits) {
    Split(*first);
    Split(*second);
  }
  OrderedWriter writer({first->mount_point() + "/n", second->mount_point() + "/n"}, 0);
  for (int round = 0; round < 8; round++) {
    writer.Progress();
    const std::string name = std::to_string(round);
    // In either order, since one of them has to be the first to be frozen.
    std::vector<NewSnapshotFile> members = {first->Member("a" + name), second->Member("b" + name)};
    if (round % 2 == 1) std::swap(members[0], members[1]);
    ASSERT_VALUE(outcome, TakeSnapshots(members));
    EXPECT_TRUE(outcome.frozen_ns > 0 && first->IsThawed() && second->IsThawed());
    const uint64_t ahead = NumberInside(At("a" + name), "nouuid,norecovery");
    const uint64_t behind = NumberInside(At("b" + name), "noload");
    EXPECT_TRUE(ahead > 0 && (ahead == behind || ahead == behind + 1));
  }
  EXPECT_GT(writer.Stop(), 8u);
}

TEST_F(GroupSnapshotsTest, TakesBusyMountedVolumesAtOnePointInTime) { CheckMounted(false); }

TEST_F(GroupSnapshotsTest, TakesBusyMountedVolumesOfManyExtentsAtOnePointInTime) {
  CheckMounted(true);
}

// Takes snapshots of two raw devices that an ordered writer writes to in turn, and of a third one
// between them that is slow to clone. A group that is taken is of one point in time; whether it is
// taken depends on the timing.
void GroupSnapshotsTest::CheckRaw(unsigned pause_ms, int rounds) {
  test::Volume* const first = Make("first", "", kSmall);
  test::Volume* const slow = Make("slow", "", kSmall);
  test::Volume* const second = Make("second", "", kSmall);
  Scatter(*slow);
  OrderedWriter writer({first->loop(), second->loop()}, O_DIRECT, pause_ms);
  for (int round = 0; round < rounds; round++) {
    writer.Progress();
    const std::string name = std::to_string(round);
    std::vector<NewSnapshotFile> members = {first->Member("a" + name), slow->Member("s" + name),
                                            second->Member("b" + name)};
    if (round % 2 == 1) std::swap(members[0], members[2]);
    Result<TakenSnapshots> outcome = TakeSnapshots(members);
    if (!outcome.ok()) {
      EXPECT_CODE(outcome, kSnapshotBusy);
      EXPECT_TRUE(NothingLeft(members));
      continue;
    }
    const uint64_t ahead = NumberIn(At("a" + name));
    const uint64_t behind = NumberIn(At("b" + name));
    EXPECT_TRUE(ahead == behind || ahead == behind + 1) << ahead << " and " << behind;
  }
  EXPECT_GT(writer.Stop(), 4u);
}

TEST_F(GroupSnapshotsTest, TakesOccasionallyWrittenRawDevicesAtOnePointInTime) {
  CheckRaw(25, test::IsNightly() ? 100 : 10);
}

TEST_F(GroupSnapshotsTest, TakesConstantlyWrittenRawDevicesAtOnePointInTimeOrNotAtAll) {
  CheckRaw(0, test::IsNightly() ? 10 : 4);
}

TEST_F(GroupSnapshotsTest, NeverAssumesThatRawDevicesWithoutWriteCountersAreIdle) {
  test::Volume* const first = Make("first", "", kSize);
  test::Volume* const second = Make("second", "", kSize);
  test::Volume* const mounted = Make("mounted", "ext4", kSize);
  const auto count = [](const test::Volume& volume, char value) {
    std::ofstream(("/sys/block" + volume.loop().substr(4) + "/queue/iostats").c_str()) << value;
  };
  count(*first, '0');
  count(*second, '0');
  const std::vector<NewSnapshotFile> members = {mounted->Member("c"), first->Member("a"),
                                                second->Member("b")};
  Result<TakenSnapshots> outcome = TakeSnapshots(members);
  EXPECT_CODE(outcome, kSnapshotBusy);
  const std::string path = outcome.ok() ? "" : outcome.status().failure().path;
  EXPECT_TRUE(path == first->path() || path == second->path());
  EXPECT_TRUE(NothingLeft(members) && mounted->IsThawed());
  // One of them may be written to as it likes.
  EXPECT_OK(TakeSnapshots({first->Member("alone")}));
  EXPECT_OK(TakeSnapshots({first->Member("with"), mounted->Member("frozen")}));
  count(*second, '1');
  EXPECT_OK(TakeSnapshots(members));
  count(*first, '1');
}

TEST_F(GroupSnapshotsTest, TakesIdleRawDevicesTogether) {
  test::Volume* const first = Make("first", "", kSize);
  test::Volume* const second = Make("second", "", kSize);
  // Not written back yet: taking the snapshots does that, and it does not count as a write.
  test::WriteBytes(first->loop(), 0, std::vector<uint8_t>(kMiB, 1));
  test::WriteBytes(second->loop(), 0, std::vector<uint8_t>(kMiB, 2));
  ASSERT_VALUE(outcome, TakeSnapshots({first->Member("a"), second->Member("b")}));
  EXPECT_EQ(outcome.frozen_ns, 0u);
  EXPECT_EQ(test::ReadBytes(At("a"))[kMiB - 1], 1);
  EXPECT_EQ(test::ReadBytes(At("b"))[kMiB - 1], 2);
  EXPECT_TRUE((*StateOfFile(At("a")))->immutable && (*StateOfFile(At("b")))->immutable);
}

TEST_F(GroupSnapshotsTest, AllowsOneConstantlyWrittenRawDeviceBesideIdleOnes) {
  test::Volume* const busy = Make("busy", "", kSize);
  test::Volume* const idle = Make("idle", "", kSize);
  test::Volume* const mounted = Make("mounted", "ext4", kSize);
  Scatter(*busy);
  Scatter(*idle);
  OrderedWriter writer({busy->loop(), mounted->mount_point() + "/n"}, O_DIRECT);
  for (int round = 0; round < 4; round++) {
    writer.Progress();
    const std::string name = std::to_string(round);
    EXPECT_OK(TakeSnapshots(
        {busy->Member("a" + name), idle->Member("b" + name), mounted->Member("c" + name)}));
    const uint64_t ahead = NumberIn(At("a" + name));
    const uint64_t behind = NumberInside(At("c" + name), "noload");
    EXPECT_TRUE(ahead == behind || ahead == behind + 1);
  }
}

TEST_F(GroupSnapshotsTest, LeavesNothingAndThawsAllWhenOneMemberFails) {
  test::Volume* const first = Make("first", "ext4", kSize);
  test::Volume* const second = Make("second", "ext4", kSize);
  const std::vector<NewSnapshotFile> members = {first->Member("a"), second->Member("b")};
  const auto expect = [&](const std::vector<NewSnapshotFile>& changed, const char* code) {
    EXPECT_CODE(TakeSnapshots(changed), code);
    EXPECT_TRUE(NothingLeft(members) && first->IsThawed());
  };
  expect({}, "EINVAL");
  expect({members[0], members[0]}, "EINVAL");
  const test::TempDirectory elsewhere;
  std::vector<NewSnapshotFile> changed = members;
  changed[1].names = {elsewhere.At("b.tmp"), elsewhere.At("b")};
  expect(changed, "EXDEV");
  changed = members;
  changed[1].source_path = At("nowhere");
  expect(changed, "ENOENT");
  changed[1].source_path = first->path();
  expect(changed, "ESTALE");
  changed = members;
  changed[1].freeze_path = first->mount_point();
  expect(changed, "ESTALE");
  // Found only when the names are given, after the first member has got its own.
  changed = members;
  changed[1].names.final = At("no-such-directory/b");
  expect(changed, "ENOENT");
  EXPECT_TRUE(test::RunCommand("fsfreeze -f " + second->mount_point()));
  expect(members, "EBUSY");
  ASSERT_VALUE(still_frozen, ThawPath(second->mount_point()));
  EXPECT_TRUE(still_frozen);
  EXPECT_OK(TakeSnapshots(members));
}

TEST_F(GroupSnapshotsTest, FreezesAVolumeOnceThatIsAMemberTwice) {
  test::Volume* const volume = Make("volume", "btrfs", 128 * kMiB);
  EXPECT_OK(TakeSnapshots({volume->Member("a"), volume->Member("b")}));
  EXPECT_TRUE(volume->IsThawed());
  EXPECT_EQ(test::ReadBytes(At("a")), test::ReadBytes(At("b")));
}

}  // namespace
}  // namespace blockdelta
