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
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include "native/device/source_volume.h"
#include "test/native/pool.h"
#include "test/native/random_seed.h"
#include "test/native/status_assertions.h"

namespace blockdelta::test {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kSize = 64 * kMiB;

// Whether none of them is there under either name.
bool NothingLeft(const std::vector<NewSnapshotFile>& members) {
  return std::none_of(members.begin(), members.end(), [](const NewSnapshotFile& member) {
    return Exists(member.names.temporary) || Exists(member.names.final);
  });
}

class TakeSnapshotTest : public InXfs {};

TEST_F(TakeSnapshotTest, FreezesAMountedVolumeAndHasItsLatestWrites) {
  Volume* const volume = Make("volume", "ext4", kSize);
  WriteBytes(volume->mount_point() + "/file", 0, {1, 2, 3});
  ASSERT_VALUE(outcome, TakeSnapshots({volume->Member("snapshot")}));
  EXPECT_GT(outcome.frozen_ns, 0u);
  EXPECT_LT(ClockNs(CLOCK_REALTIME) - outcome.taken_at_ns, 60'000'000'000);
  EXPECT_TRUE(volume->IsThawed());
  const std::string snapshot = At("snapshot");
  EXPECT_EQ(StateOf(snapshot).st_mode & 07777u, 0400u);
  EXPECT_TRUE((*StateOfFile(snapshot))->immutable);
  EXPECT_FALSE(Exists(snapshot + ".tmp"));
  WithMounted(snapshot, "ro", [](const std::string& mount) {
    EXPECT_EQ(ReadBytes(mount + "/file"), std::vector<uint8_t>({1, 2, 3}));
  });
  EXPECT_CODE(TakeSnapshots({volume->Member("snapshot")}), "EEXIST");
  EXPECT_TRUE((*StateOfFile(snapshot))->immutable);
}

TEST_F(TakeSnapshotTest, PublishesNothingForACallerWhoHasStoppedWaiting) {
  Volume* const raw = Make("raw", "", kSize);
  SnapshotAids aids;
  aids.freezing.deadline_ms = 1;
  const auto expect_given_up = [&](const NewSnapshotFile& member,
                                   const Result<TakenSnapshots>& late) {
    EXPECT_TRUE(NothingLeft({member}));
    EXPECT_CODE(late, "ETIMEDOUT");
    if (late.ok()) return;
    EXPECT_EQ(late.status().failure().syscall, "FICLONE");
    EXPECT_EQ(late.status().failure().path, member.source_path);
  };
  NewSnapshotFile unattached;
  unattached.source_path = MakeFile(At("unattached"), kSize);
  unattached.names = Names(At("late"));
  for (const NewSnapshotFile& member : {raw->Member("late"), unattached}) {
    expect_given_up(member, TakeSnapshots({member}, aids));
    expect_given_up(member, CloneVolume(member, kSize, aids));
  }
}

TEST_F(TakeSnapshotTest, FreezesAMountedBtrfsFoundByItsDevice) {
  Volume* const volume = Make("volume", "btrfs", 128 << 20);
  EXPECT_GT(ValueOf(TakeSnapshots({volume->Member("snapshot")})).frozen_ns, 0u);
  EXPECT_TRUE(volume->IsThawed());
  NewSnapshotFile member = Make("other", "", kSize)->Member("second");
  member.freeze_path = volume->mount_point();
  EXPECT_CODE(TakeSnapshots({member}), "ESTALE");
}

TEST_F(TakeSnapshotTest, HasWhatWasWrittenToAnAttachedDevice) {
  Volume* const volume = Make("volume", "", kSize);
  // The last one who closes a device writes its page cache back.
  const UniqueFd held = Open(volume->loop(), O_RDONLY);
  WriteBytes(volume->loop(), kSize - 4096, std::vector<uint8_t>(4096, 9));
  EXPECT_EQ(ValueOf(TakeSnapshots({volume->Member("snapshot")})).frozen_ns, 0u);
  const std::vector<uint8_t> bytes = ReadBytes(At("snapshot"));
  EXPECT_TRUE(bytes.size() == kSize && bytes[kSize - 4096] == 9 && bytes[kSize - 1] == 9);
}

TEST_F(TakeSnapshotTest, HasASealThatALaterWriteBreaks) {
  Volume* const volume = Make("volume", "", kSize);
  ASSERT_OK(TakeSnapshots({volume->Member("snapshot")}));
  const SnapshotIdentity snapshot = IdentityOf(At("snapshot"));
  EXPECT_OK(SnapshotFile::Open(snapshot));
  EXPECT_OK(SetImmutable(snapshot.path, false));
  WriteBytes(snapshot.path, 0, {1});
  EXPECT_OK(SetImmutable(snapshot.path, true));
  EXPECT_CODE(SnapshotFile::Open(snapshot), "SCAN_MUTABLE");
}

TEST_F(TakeSnapshotTest, RefusesADeviceLockedByAToolAndLocksOutTools) {
  Volume* const volume = Make("volume", "", kSize);
  const NewSnapshotFile member = volume->Member("snapshot");
  {
    const UniqueFd tool = Open(volume->loop(), O_RDONLY);
    ASSERT_EQ(flock(tool.get(), LOCK_EX | LOCK_NB), 0);
    Result<TakenSnapshots> taken = TakeSnapshots({member});
    EXPECT_CODE(taken, "EBUSY");
    EXPECT_EQ(taken.status().failure().syscall, "flock");
    EXPECT_EQ(taken.status().failure().path, volume->path());
    EXPECT_CODE(CloneVolume(member, kSize), "EBUSY");
    EXPECT_TRUE(NothingLeft({member}));
  }
  Result<SourceVolume> source = SourceVolume::Open(member);
  ASSERT_OK(source);
  const UniqueFd tool = Open(volume->loop(), O_RDONLY);
  EXPECT_TRUE(flock(tool.get(), LOCK_EX | LOCK_NB) == -1 && errno == EWOULDBLOCK);
  // Processes that only read the device, such as udev, do not conflict.
  EXPECT_EQ(flock(tool.get(), LOCK_SH | LOCK_NB), 0);
  EXPECT_OK(TakeSnapshots({member}));
}

TEST_F(TakeSnapshotTest, FreezesOnlyTheFileSystemOnTheVolumesOwnDevice) {
  Volume* const volume = Make("volume", "ext4", kSize);
  const NewSnapshotFile once = volume->Member("snapshot");
  NewSnapshotFile member = once;
  // The pool itself: with it frozen the clone would wait for ever.
  member.freeze_path = pool_.mount_point();
  EXPECT_CODE(TakeSnapshots({member}), "ESTALE");
  // A mount point that nothing is mounted on any more.
  EXPECT_TRUE(volume->Unmount());
  EXPECT_CODE(TakeSnapshots({once}), "ESTALE");
  member.loop_path.reset();
  EXPECT_CODE(TakeSnapshots({member}), "EINVAL");
  EXPECT_FALSE(Exists(At("snapshot.tmp")));
}

TEST_F(TakeSnapshotTest, RefusesALoopDeviceThatNowHasAnotherFile) {
  Volume* const volume = Make("volume", "ext4", kSize);
  NewSnapshotFile member = volume->Member("snapshot");
  member.source_path = MakeFile(At("other-volume"), kSize);
  EXPECT_CODE(TakeSnapshots({member}), "ESTALE");
}

TEST_F(TakeSnapshotTest, ClonesAMountedVolumeWithZerosBehindItsEnd) {
  Volume* const volume = Make("volume", "ext4", kSize);
  WriteBytes(volume->mount_point() + "/file", 0, {1, 2, 3});
  NewSnapshotFile member = volume->Member("clone");
  EXPECT_CODE(CloneVolume(member, kSize - 1), "EINVAL");
  EXPECT_FALSE(Exists(At("clone.tmp")));
  EXPECT_GT(ValueOf(CloneVolume(member, kSize + 8192)).frozen_ns, 0u);
  EXPECT_TRUE(volume->IsThawed());
  ASSERT_VALUE(state, StateOfFile(At("clone")));
  ASSERT_TRUE(state.has_value());
  EXPECT_FALSE(state->immutable);
  EXPECT_EQ(state->size_bytes, kSize + 8192);
  EXPECT_EQ(StateOf(At("clone")).st_mode & 07777u, 0600u);
  const std::vector<uint8_t> bytes = ReadBytes(At("clone"));
  EXPECT_TRUE(bytes[kSize] == 0 && bytes[kSize + 8191] == 0);
  EXPECT_CODE(CloneVolume(member, kSize + 8192), "EEXIST");
  WithMounted(At("clone"), "noload", [](const std::string& mount) {
    EXPECT_EQ(ReadBytes(mount + "/file"), std::vector<uint8_t>({1, 2, 3}));
  });
  // Without a device, nothing is frozen.
  member = {volume->path(), Names(At("other")), {}, {}};
  EXPECT_EQ(ValueOf(CloneVolume(member, kSize)).frozen_ns, 0u);
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
      fds_.push_back(Open(place, O_WRONLY | O_CREAT | flags));
    }
    background_ = std::make_unique<Background>([this] { Step(); });
  }
  ~OrderedWriter() { Stop(); }

  // How far it came; fails the test if it could not write.
  uint64_t Stop() {
    background_->Stop();
    EXPECT_FALSE(broken_);
    return rounds_;
  }
  // Waits until something new was written.
  void Progress() const {
    const uint64_t now = rounds_;
    while (rounds_ < now + 2 && !broken_) SleepMs(1);
  }

 private:
  void Step() {
    if (broken_) return SleepMs(1);
    alignas(kBlock) uint8_t block[kBlock] = {};
    const uint64_t next = rounds_ + 1;
    std::memcpy(block, &next, sizeof next);
    for (const UniqueFd& fd : fds_) {
      const bool written = pwrite(fd.get(), block, kBlock, 0) == kBlock;
      if (!written || fsync(fd.get()) == -1) broken_ = true;
    }
    rounds_ = next;
    if (pause_ms_ > 0) SleepMs(pause_ms_);
  }

  const unsigned pause_ms_;
  std::vector<UniqueFd> fds_;
  std::atomic<bool> broken_ = false;
  std::atomic<uint64_t> rounds_ = 0;
  std::unique_ptr<Background> background_;
};

uint64_t NumberIn(const std::string& path) {
  uint64_t number = 0;
  EXPECT_TRUE(pread(Open(path, O_RDONLY).get(), &number, sizeof number, 0) == sizeof number);
  return number;
}

// The number in the file "n" of a snapshot with a file system.
uint64_t NumberInside(const std::string& snapshot, const std::string& options) {
  uint64_t number = 0;
  WithMounted(snapshot, options,
              [&](const std::string& mount) { number = NumberIn(mount + "/n"); });
  return number;
}

// Scatters extents over the volume, so that cloning it takes its time.
void Scatter(const Volume& volume) {
  const UniqueFd fd = Open(volume.path(), O_WRONLY);
  for (uint64_t offset = 2 * kBlock; offset < kSmall; offset += 4 * kBlock) {
    EXPECT_EQ(pwrite(fd.get(), "x", 1, static_cast<off_t>(offset)), 1);
  }
  EXPECT_OK(SyncFd(fd.get(), volume.path()));
}

// Splits the volume's file into thousands of extents: every fourth block of a file inside that a
// snapshot also has is written again. (A block of an ext4 this small covers parts of two of the
// pool's.)
void Split(const Volume& volume) {
  constexpr uint64_t kBytes = 24 * kMiB;
  const std::string path = volume.mount_point() + "/split";
  WriteBytes(path, 0, std::vector<uint8_t>(kBytes, 1));
  EXPECT_OK(SyncPath(path));
  EXPECT_OK(TakeSnapshots(
      {volume.Member("before-" + volume.path().substr(volume.path().rfind('/') + 1))}));
  for (uint64_t offset = 0; offset < kBytes; offset += 4 * kBlock) {
    WriteBytes(path, offset, std::vector<uint8_t>(kBlock, 2));
  }
  EXPECT_OK(SyncPath(path));
  EXPECT_OK(SyncPath(volume.path()));
  const UniqueFd fd = Open(volume.path(), O_RDONLY);
  struct fsxattr attributes = {};
  EXPECT_OK(Ioctl(fd.get(), FS_IOC_FSGETXATTR, &attributes, "FS_IOC_FSGETXATTR", volume.path()));
  EXPECT_GT(attributes.fsx_nextents, 2000u) << volume.path();
}

class GroupSnapshotsTest : public InXfs {
 protected:
  void CheckMounted(bool splits);
  void CheckRaw(unsigned pause_ms, int rounds);
};

// Takes snapshots of two mounted volumes that are written to in turn. `splits`: in so many pieces
// that their files are cloned ahead of the freeze.
void GroupSnapshotsTest::CheckMounted(bool splits) {
  Volume* const first = Make("first", "xfs", 320 * kMiB);
  Volume* const second = Make("second", "ext4", kSize);
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
  Volume* const first = Make("first", "", kSmall);
  Volume* const slow = Make("slow", "", kSmall);
  Volume* const second = Make("second", "", kSmall);
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
  CheckRaw(25, IsNightly() ? 40 : 10);
}

TEST_F(GroupSnapshotsTest, TakesConstantlyWrittenRawDevicesAtOnePointInTimeOrNotAtAll) {
  CheckRaw(0, IsNightly() ? 10 : 4);
}

TEST_F(GroupSnapshotsTest, NeverAssumesThatRawDevicesWithoutWriteCountersAreIdle) {
  Volume* const first = Make("first", "", kSize);
  Volume* const second = Make("second", "", kSize);
  Volume* const mounted = Make("mounted", "ext4", kSize);
  const auto count = [](const Volume& volume, char value) {
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
  Volume* const first = Make("first", "", kSize);
  Volume* const second = Make("second", "", kSize);
  // Not written back yet: taking the snapshots does that, and it does not count as a write.
  WriteBytes(first->loop(), 0, std::vector<uint8_t>(kMiB, 1));
  WriteBytes(second->loop(), 0, std::vector<uint8_t>(kMiB, 2));
  EXPECT_EQ(ValueOf(TakeSnapshots({first->Member("a"), second->Member("b")})).frozen_ns, 0u);
  EXPECT_EQ(ReadBytes(At("a"))[kMiB - 1], 1);
  EXPECT_EQ(ReadBytes(At("b"))[kMiB - 1], 2);
  EXPECT_TRUE((*StateOfFile(At("a")))->immutable && (*StateOfFile(At("b")))->immutable);
}

TEST_F(GroupSnapshotsTest, AllowsOneConstantlyWrittenRawDeviceBesideIdleOnes) {
  Volume* const busy = Make("busy", "", kSize);
  Volume* const idle = Make("idle", "", kSize);
  Volume* const mounted = Make("mounted", "ext4", kSize);
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
  Volume* const first = Make("first", "ext4", kSize);
  Volume* const second = Make("second", "ext4", kSize);
  const std::vector<NewSnapshotFile> members = {first->Member("a"), second->Member("b")};
  const auto expect = [&](const std::vector<NewSnapshotFile>& changed, const char* code) {
    EXPECT_CODE(TakeSnapshots(changed), code);
    EXPECT_TRUE(NothingLeft(members) && first->IsThawed());
  };
  expect({}, "EINVAL");
  expect({members[0], members[0]}, "EINVAL");
  const TempDirectory elsewhere;
  const auto expect_with = [&](const auto& change, const char* code) {
    expect({members[0], With(members[1], change)}, code);
  };
  expect_with([&](auto* member) { member->names = Names(elsewhere.At("b")); }, "EXDEV");
  expect_with([&](auto* member) { member->source_path = At("nowhere"); }, "ENOENT");
  expect_with([&](auto* member) { member->source_path = first->path(); }, "ESTALE");
  expect_with([&](auto* member) { member->freeze_path = first->mount_point(); }, "ESTALE");
  // Found only when the names are given, after the first member has got its own.
  expect_with([&](auto* member) { member->names.final = At("no-such-directory/b"); }, "ENOENT");
  EXPECT_OK(TakeSnapshots(members));
}

TEST_F(GroupSnapshotsTest, FreezesAVolumeOnceThatIsAMemberTwice) {
  Volume* const volume = Make("volume", "btrfs", 128 * kMiB);
  EXPECT_OK(TakeSnapshots({volume->Member("a"), volume->Member("b")}));
  EXPECT_TRUE(volume->IsThawed());
  EXPECT_EQ(ReadBytes(At("a")), ReadBytes(At("b")));
}

}  // namespace
}  // namespace blockdelta::test
