// Snapshots and clones of one volume: attached, mounted and broken.
#include "native/device/cut.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>

#include "native/device/cut_source.h"
#include "native/device/freeze.h"
#include "test/native/harness.h"
#include "test/native/pool.h"
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
  Result<CutOutcome> Cut(const CutMember& member) const { return CutSnapshots({member}); }

  std::unique_ptr<test::Pool> pool;
  std::unique_ptr<test::Volume> volume;
  test::TempDirectory directory;
};

TEST("a snapshot of a mounted volume is clean, frozen and has what was just written") {
  const Bench bench;
  if (!bench.ready()) return;
  test::WriteBytes(bench.volume->mount_point() + "/file", 0, {1, 2, 3});
  Result<CutOutcome> outcome = bench.Cut(bench.volume->Member("snapshot"));
  if (!EXPECT_OK(outcome)) return;
  EXPECT(outcome->frozen_ns > 0);
  EXPECT(ClockNs(CLOCK_REALTIME) - outcome->cut_time_ns < 60'000'000'000);
  EXPECT(bench.volume->IsThawed());
  const std::string snapshot = bench.At("snapshot");
  struct stat state = {};
  EXPECT(stat(snapshot.c_str(), &state) == 0);
  EXPECT_EQ(state.st_mode & 07777u, 0400u);
  EXPECT((*StateOfFile(snapshot))->immutable);
  EXPECT(!test::Exists(snapshot + ".tmp"));
  const std::string other = bench.directory.At("other");
  EXPECT(test::RunCommand("mkdir " + other + " && mount -o ro,loop " + snapshot + " " + other));
  EXPECT(test::ReadBytes(other + "/file") == std::vector<uint8_t>({1, 2, 3}));
  EXPECT(test::RunCommand("umount " + other));
}

TEST("a mounted btrfs is known by its device, and frozen") {
  const Bench bench("btrfs", 128 << 20);
  if (!bench.ready()) return;
  Result<CutOutcome> outcome = bench.Cut(bench.volume->Member("snapshot"));
  if (!EXPECT_OK(outcome)) return;
  EXPECT(outcome->frozen_ns > 0);
  EXPECT(bench.volume->IsThawed());
  const auto other = test::Volume::Make(*bench.pool, "other", "", kSize);
  if (other == nullptr) return;
  CutMember member = other->Member("second");
  member.freeze_path = bench.volume->mount_point();
  EXPECT_CODE(bench.Cut(member), "ESTALE");
}

TEST("a snapshot of an attached volume has what was written to the device") {
  const Bench bench("");
  if (!bench.ready()) return;
  test::WriteBytes(bench.volume->loop(), kSize - 4096, std::vector<uint8_t>(4096, 9));
  Result<CutOutcome> outcome = bench.Cut(bench.volume->Member("snapshot"));
  if (!EXPECT_OK(outcome)) return;
  EXPECT_EQ(outcome->frozen_ns, 0u);
  const std::vector<uint8_t> bytes = test::ReadBytes(bench.At("snapshot"));
  EXPECT(bytes.size() == kSize && bytes[kSize - 4096] == 9 && bytes[kSize - 1] == 9);
}

TEST("a device that a tool has locked is not cut, and while it is being cut no tool begins") {
  const Bench bench("");
  if (!bench.ready()) return;
  const CutMember member = bench.volume->Member("snapshot");
  {
    Result<UniqueFd> tool = OpenPath(bench.volume->loop(), O_RDONLY);
    if (!EXPECT_OK(tool) || !EXPECT(flock(tool->get(), LOCK_EX | LOCK_NB) == 0)) return;
    Result<CutOutcome> cut = bench.Cut(member);
    EXPECT_CODE(cut, "EBUSY");
    EXPECT(cut.status().failure().syscall == "flock");
    EXPECT_EQ(cut.status().failure().path, bench.volume->path());
    EXPECT_CODE(CloneVolume(member, kSize), "EBUSY");
    EXPECT(!test::Exists(bench.At("snapshot")) && !test::Exists(bench.At("snapshot.tmp")));
  }
  Result<CutSource> source = CutSource::Open(member);
  Result<UniqueFd> tool = OpenPath(bench.volume->loop(), O_RDONLY);
  if (!EXPECT_OK(source) || !EXPECT_OK(tool)) return;
  EXPECT(flock(tool->get(), LOCK_EX | LOCK_NB) == -1 && errno == EWOULDBLOCK);
  // Those who only look, as udev does, are in nobody's way.
  EXPECT(flock(tool->get(), LOCK_SH | LOCK_NB) == 0);
  EXPECT_OK(bench.Cut(member));
}

TEST("a snapshot is never replaced") {
  const Bench bench;
  if (!bench.ready()) return;
  EXPECT_OK(bench.Cut(bench.volume->Member("snapshot")));
  EXPECT_CODE(bench.Cut(bench.volume->Member("snapshot")), "EEXIST");
  EXPECT((*StateOfFile(bench.At("snapshot")))->immutable);
}

TEST("a file system that is frozen already is left to whoever froze it") {
  const Bench bench;
  if (!bench.ready()) return;
  EXPECT(test::RunCommand("fsfreeze -f " + bench.volume->mount_point()));
  EXPECT_CODE(bench.Cut(bench.volume->Member("snapshot")), "EBUSY");
  EXPECT(!test::Exists(bench.At("snapshot.tmp")));
  Result<bool> thawed = ThawPath(bench.volume->mount_point());
  EXPECT(EXPECT_OK(thawed) && *thawed);
}

TEST("only the file system on the volume's own device is ever frozen") {
  const Bench bench;
  if (!bench.ready()) return;
  const CutMember once = bench.volume->Member("snapshot");
  CutMember member = once;
  // The pool itself: with it frozen the clone would wait for ever.
  member.freeze_path = bench.pool->mount_point();
  EXPECT_CODE(bench.Cut(member), "ESTALE");
  // A mount point that nothing is mounted on any more.
  EXPECT(bench.volume->Unmount());
  EXPECT_CODE(bench.Cut(once), "ESTALE");
  member.loop_path.reset();
  EXPECT_CODE(bench.Cut(member), "EINVAL");
  EXPECT(!test::Exists(bench.At("snapshot.tmp")));
}

TEST("a loop device that has another file by now is not taken for the volume's") {
  const Bench bench;
  if (!bench.ready()) return;
  CutMember member = bench.volume->Member("snapshot");
  member.source_path = bench.At("other-volume");
  EXPECT_OK(CreateSparseFile({member.source_path + ".tmp", member.source_path}, kSize));
  EXPECT_CODE(bench.Cut(member), "ESTALE");
}

TEST("when the clone fails the file system is thawed and nothing is left") {
  const Bench bench;
  if (!bench.ready()) return;
  CutMember member = bench.volume->Member("snapshot");
  // On another file system: cloning into it cannot work.
  member.names = {bench.directory.At("snapshot.tmp"), bench.directory.At("snapshot")};
  EXPECT_CODE(bench.Cut(member), "EXDEV");
  EXPECT(bench.volume->IsThawed());
  EXPECT(!test::Exists(member.names.temporary) && !test::Exists(member.names.final));
}

TEST("a clone of a mounted volume is a volume of its own, with zeros behind") {
  const Bench bench;
  if (!bench.ready()) return;
  test::WriteBytes(bench.volume->mount_point() + "/file", 0, {1, 2, 3});
  const CutMember member = bench.volume->Member("clone");
  EXPECT_CODE(CloneVolume(member, kSize - 1), "EINVAL");
  EXPECT(!test::Exists(bench.At("clone.tmp")));
  Result<CutOutcome> outcome = CloneVolume(member, kSize + 8192);
  if (!EXPECT_OK(outcome)) return;
  EXPECT(outcome->frozen_ns > 0 && bench.volume->IsThawed());
  Result<std::optional<FileState>> state = StateOfFile(bench.At("clone"));
  if (!EXPECT_OK(state) || !EXPECT(state->has_value())) return;
  EXPECT(!(*state)->immutable);
  EXPECT_EQ((*state)->size_bytes, kSize + 8192);
  struct stat mode = {};
  EXPECT(stat(bench.At("clone").c_str(), &mode) == 0);
  EXPECT_EQ(mode.st_mode & 07777u, 0600u);
  const std::vector<uint8_t> bytes = test::ReadBytes(bench.At("clone"));
  EXPECT(bytes[kSize] == 0 && bytes[kSize + 8191] == 0);
  EXPECT_CODE(CloneVolume(member, kSize + 8192), "EEXIST");
  const std::string other = bench.directory.At("other");
  EXPECT(test::RunCommand("mkdir " + other + " && mount -o loop " + bench.At("clone") + " " +
                          other + " && touch " + other + "/new"));
  EXPECT(test::ReadBytes(other + "/file") == std::vector<uint8_t>({1, 2, 3}));
  EXPECT(!test::Exists(bench.volume->mount_point() + "/new"));
  EXPECT(test::RunCommand("umount " + other));
}

TEST("a clone of a volume that is not attached needs no device") {
  const Bench bench("");
  if (!bench.ready()) return;
  CutMember member = bench.volume->Member("clone");
  member.loop_path.reset();
  Result<CutOutcome> outcome = CloneVolume(member, kSize);
  EXPECT(EXPECT_OK(outcome) && outcome->frozen_ns == 0);
}

}  // namespace
}  // namespace blockdelta
