// Snapshots of several volumes at one point in time, while they are being written to.
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "native/device/freeze.h"
#include "native/device/take_snapshots.h"
#include "test/native/pool.h"
#include "test/native/random_seed.h"
#include "test/native/status_assertions.h"
#include "test/native/volume.h"

namespace blockdelta {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kSize = 64 * kMiB;
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
  const test::TempDirectory directory;
  const std::string mount = directory.At("mount");
  const bool mounted = test::RunCommand("mkdir " + mount + " && mount -o ro,loop," + options + " " +
                                        snapshot + " " + mount);
  EXPECT_TRUE(mounted);
  if (!mounted) return 0;
  const uint64_t number = NumberIn(mount + "/n");
  EXPECT_TRUE(test::RunCommand("umount " + mount));
  return number;
}

bool NothingLeft(const std::vector<NewSnapshotFile>& members) {
  bool nothing = true;
  for (const NewSnapshotFile& member : members) {
    nothing = nothing && !test::Exists(member.names.temporary) && !test::Exists(member.names.final);
  }
  return nothing;
}

// Scatters extents over the volume, so that cloning it takes its time.
void Scatter(const test::Volume& volume) {
  Result<UniqueFd> fd = OpenPath(volume.path(), O_WRONLY);
  ASSERT_OK(fd);
  for (uint64_t offset = 2 * kBlock; offset < kSmall; offset += 4 * kBlock) {
    EXPECT_EQ(pwrite(fd->get(), "x", 1, static_cast<off_t>(offset)), 1);
  }
  EXPECT_OK(SyncFd(fd->get(), volume.path()));
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
  Result<UniqueFd> fd = OpenPath(volume.path(), O_RDONLY);
  ASSERT_OK(fd);
  struct fsxattr attributes = {};
  EXPECT_OK(Ioctl(fd->get(), FS_IOC_FSGETXATTR, &attributes, "FS_IOC_FSGETXATTR", volume.path()));
  EXPECT_GT(attributes.fsx_nextents, 2000u) << volume.path();
}

// Takes snapshots of two mounted volumes that are written to in turn. `splits`: in so many pieces
// that their files are cloned ahead of the freeze.
void CheckMounted(bool splits) {
  const auto pool = test::Pool::Make("xfs");
  if (pool == nullptr) return;
  const auto first = test::Volume::Make(*pool, "first", "xfs", 320 * kMiB);
  const auto second = test::Volume::Make(*pool, "second", "ext4", kSize);
  if (first == nullptr || second == nullptr) return;
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
    Result<TakenSnapshots> outcome = TakeSnapshots(members);
    ASSERT_OK(outcome);
    EXPECT_TRUE(outcome->frozen_ns > 0 && first->IsThawed() && second->IsThawed());
    const uint64_t ahead = NumberInside(pool->At("a" + name), "nouuid,norecovery");
    const uint64_t behind = NumberInside(pool->At("b" + name), "noload");
    EXPECT_TRUE(ahead > 0 && (ahead == behind || ahead == behind + 1));
  }
  EXPECT_GT(writer.Stop(), 8u);
}

TEST(GroupSnapshotsTest, TakesBusyMountedVolumesAtOnePointInTime) { CheckMounted(false); }

TEST(GroupSnapshotsTest, TakesBusyMountedVolumesOfManyExtentsAtOnePointInTime) {
  CheckMounted(true);
}

// Takes snapshots of two raw devices that an ordered writer writes to in turn, and of a third one
// between them that is slow to clone. A group that is taken is of one point in time; whether it is
// taken depends on the timing.
void CheckRaw(unsigned pause_ms, int rounds) {
  const auto pool = test::Pool::Make("xfs");
  if (pool == nullptr) return;
  const auto first = test::Volume::Make(*pool, "first", "", kSmall);
  const auto slow = test::Volume::Make(*pool, "slow", "", kSmall);
  const auto second = test::Volume::Make(*pool, "second", "", kSmall);
  if (first == nullptr || slow == nullptr || second == nullptr) return;
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
    const uint64_t ahead = NumberIn(pool->At("a" + name));
    const uint64_t behind = NumberIn(pool->At("b" + name));
    EXPECT_TRUE(ahead == behind || ahead == behind + 1) << ahead << " and " << behind;
  }
  EXPECT_GT(writer.Stop(), 4u);
}

TEST(GroupSnapshotsTest, TakesOccasionallyWrittenRawDevicesAtOnePointInTime) {
  CheckRaw(25, test::IsNightly() ? 100 : 10);
}

TEST(GroupSnapshotsTest, TakesConstantlyWrittenRawDevicesAtOnePointInTimeOrNotAtAll) {
  CheckRaw(0, test::IsNightly() ? 10 : 4);
}

TEST(GroupSnapshotsTest, NeverAssumesThatRawDevicesWithoutWriteCountersAreIdle) {
  const auto pool = test::Pool::Make("xfs");
  if (pool == nullptr) return;
  const auto first = test::Volume::Make(*pool, "first", "", kSize);
  const auto second = test::Volume::Make(*pool, "second", "", kSize);
  const auto mounted = test::Volume::Make(*pool, "mounted", "ext4", kSize);
  if (first == nullptr || second == nullptr || mounted == nullptr) return;
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

TEST(GroupSnapshotsTest, TakesIdleRawDevicesTogether) {
  const auto pool = test::Pool::Make("btrfs");
  if (pool == nullptr) return;
  const auto first = test::Volume::Make(*pool, "first", "", kSize);
  const auto second = test::Volume::Make(*pool, "second", "", kSize);
  if (first == nullptr || second == nullptr) return;
  // Not written back yet: taking the snapshots does that, and it does not count as a write.
  test::WriteBytes(first->loop(), 0, std::vector<uint8_t>(kMiB, 1));
  test::WriteBytes(second->loop(), 0, std::vector<uint8_t>(kMiB, 2));
  Result<TakenSnapshots> outcome = TakeSnapshots({first->Member("a"), second->Member("b")});
  ASSERT_OK(outcome);
  EXPECT_EQ(outcome->frozen_ns, 0u);
  EXPECT_EQ(test::ReadBytes(pool->At("a"))[kMiB - 1], 1);
  EXPECT_EQ(test::ReadBytes(pool->At("b"))[kMiB - 1], 2);
  EXPECT_TRUE((*StateOfFile(pool->At("a")))->immutable && (*StateOfFile(pool->At("b")))->immutable);
}

TEST(GroupSnapshotsTest, AllowsOneConstantlyWrittenRawDeviceBesideIdleOnes) {
  const auto pool = test::Pool::Make("xfs");
  if (pool == nullptr) return;
  const auto busy = test::Volume::Make(*pool, "busy", "", kSize);
  const auto idle = test::Volume::Make(*pool, "idle", "", kSize);
  const auto mounted = test::Volume::Make(*pool, "mounted", "ext4", kSize);
  if (busy == nullptr || idle == nullptr || mounted == nullptr) return;
  Scatter(*busy);
  Scatter(*idle);
  OrderedWriter writer({busy->loop(), mounted->mount_point() + "/n"}, O_DIRECT);
  for (int round = 0; round < 4; round++) {
    writer.Progress();
    const std::string name = std::to_string(round);
    EXPECT_OK(TakeSnapshots(
        {busy->Member("a" + name), idle->Member("b" + name), mounted->Member("c" + name)}));
    const uint64_t ahead = NumberIn(pool->At("a" + name));
    const uint64_t behind = NumberInside(pool->At("c" + name), "noload");
    EXPECT_TRUE(ahead == behind || ahead == behind + 1);
  }
}

TEST(GroupSnapshotsTest, LeavesNothingAndThawsAllWhenOneMemberFails) {
  const auto pool = test::Pool::Make("xfs");
  if (pool == nullptr) return;
  const auto first = test::Volume::Make(*pool, "first", "ext4", kSize);
  const auto second = test::Volume::Make(*pool, "second", "ext4", kSize);
  if (first == nullptr || second == nullptr) return;
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
  changed[1].source_path = pool->At("nowhere");
  expect(changed, "ENOENT");
  changed[1].source_path = first->path();
  expect(changed, "ESTALE");
  changed = members;
  changed[1].freeze_path = first->mount_point();
  expect(changed, "ESTALE");
  // Found only when the names are given, after the first member has got its own.
  changed = members;
  changed[1].names.final = pool->At("no-such-directory/b");
  expect(changed, "ENOENT");
  EXPECT_TRUE(test::RunCommand("fsfreeze -f " + second->mount_point()));
  expect(members, "EBUSY");
  Result<bool> still_frozen = ThawPath(second->mount_point());
  ASSERT_OK(still_frozen);
  EXPECT_TRUE(*still_frozen);
  EXPECT_OK(TakeSnapshots(members));
}

TEST(GroupSnapshotsTest, FreezesAVolumeOnceThatIsAMemberTwice) {
  const auto pool = test::Pool::Make("xfs");
  if (pool == nullptr) return;
  const auto volume = test::Volume::Make(*pool, "volume", "btrfs", 128 * kMiB);
  if (volume == nullptr) return;
  EXPECT_OK(TakeSnapshots({volume->Member("a"), volume->Member("b")}));
  EXPECT_TRUE(volume->IsThawed());
  EXPECT_EQ(test::ReadBytes(pool->At("a")), test::ReadBytes(pool->At("b")));
}

}  // namespace
}  // namespace blockdelta
