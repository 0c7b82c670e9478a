// Subvolumes and their copies, and snapshots of volumes that lie in one.
#include "native/device/subvolume.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>

#include "native/device/take_snapshots.h"
#include "test/native/pool.h"
#include "test/native/status_assertions.h"
#include "test/native/volume.h"

namespace blockdelta {
namespace {

constexpr uint64_t kSize = 128 << 20;

UniqueFd OpenDirectory(const std::string& path) {
  Result<UniqueFd> fd = OpenPath(path, O_RDONLY | O_DIRECTORY);
  EXPECT_OK(fd);
  return fd.ok() ? std::move(*fd) : UniqueFd();
}

// A pool on btrfs with the subvolume `volumes`.
std::unique_ptr<test::Pool> MakePool(const std::string& mount_options = "") {
  auto pool = test::Pool::Make("btrfs", mount_options);
  if (pool == nullptr) return nullptr;
  Result<bool> made = MakeSubvolume({pool->At("volumes.tmp"), pool->At("volumes")});
  EXPECT_OK(made);
  EXPECT_TRUE(made.ok() && *made);
  return pool;
}

// Gives the file extents that read as zeros, one for each second block that was a hole.
void Fragment(const std::string& path) {
  Result<UniqueFd> fd = OpenPath(path, O_RDWR);
  ASSERT_OK(fd);
  for (uint64_t at = 0; at < kSize; at += 8192) {
    ASSERT_EQ(fallocate(fd->get(), FALLOC_FL_KEEP_SIZE, static_cast<off_t>(at), 4096), 0);
  }
  ASSERT_OK(SyncFd(fd->get(), path));
}

TEST(SubvolumeTest, IsMadePrivateAndOnce) {
  const auto pool = MakePool();
  if (pool == nullptr) return;
  const std::string path = pool->At("volumes");
  struct stat state = {};
  ASSERT_EQ(stat(path.c_str(), &state), 0);
  EXPECT_EQ(state.st_mode & 07777u, 0700u);
  EXPECT_TRUE(*IsSubvolume(OpenDirectory(path).get(), path));
  EXPECT_FALSE(*MakeSubvolume({path + ".tmp", path}));
  EXPECT_FALSE(test::Exists(path + ".tmp"));
}

TEST(SubvolumeTest, ReplacesAnEmptyLeftOverAndNoOther) {
  const auto pool = MakePool();
  if (pool == nullptr) return;
  const NewFileNames names = {pool->At("other.tmp"), pool->At("other")};
  ASSERT_TRUE(test::RunCommand("btrfs subvolume create " + names.temporary));
  EXPECT_TRUE(*MakeSubvolume(names));
  ASSERT_TRUE(test::RunCommand("mkdir " + names.temporary + " && touch " + names.temporary +
                               "/file && rmdir " + names.final));
  EXPECT_CODE(MakeSubvolume(names), "ENOTEMPTY");
  EXPECT_TRUE(test::Exists(names.temporary + "/file"));
}

TEST(SubvolumeTest, IsNotMadeOnAnotherFileSystem) {
  const auto pool = test::Pool::Make("xfs");
  if (pool == nullptr) return;
  EXPECT_FALSE(*MakeSubvolume({pool->At("volumes.tmp"), pool->At("volumes")}));
  EXPECT_FALSE(test::Exists(pool->At("volumes")));
  EXPECT_FALSE(*IsSubvolume(OpenDirectory(pool->mount_point()).get(), pool->mount_point()));
}

TEST(SubvolumeTest, RefusesNamesThatAreNone) {
  const auto pool = MakePool();
  if (pool == nullptr) return;
  const std::string long_name = pool->At(std::string(300, 'x'));
  EXPECT_CODE(MakeSubvolume({long_name, long_name}), "ENAMETOOLONG");
  EXPECT_CODE(SubvolumeCopy::Make(OpenDirectory(pool->At("volumes")).get(), long_name),
              "ENAMETOOLONG");
  EXPECT_CODE(RemoveSubvolumeCopy(pool->At("..")), "EINVAL");
  EXPECT_CODE(RemoveSubvolumeCopy(pool->At("volumes/")), "EINVAL");
}

TEST(SubvolumeTest, ACopyHasUnsyncedWritesAndKeepsThem) {
  const auto pool = MakePool();
  if (pool == nullptr) return;
  const std::string file = pool->At("volumes/file");
  const std::vector<uint8_t> old_bytes(8192, 1);
  test::WriteBytes(file, 0, old_bytes);
  struct stat state = {};
  ASSERT_EQ(stat(file.c_str(), &state), 0);
  const std::string path = pool->At("copy");
  {
    Result<SubvolumeCopy> copy =
        SubvolumeCopy::Make(OpenDirectory(pool->At("volumes")).get(), path);
    ASSERT_OK(copy);
    test::WriteBytes(file, 0, std::vector<uint8_t>(8192, 2));
    ASSERT_OK(copy->Open("file", state.st_ino));
    EXPECT_EQ(test::ReadBytes(path + "/file"), old_bytes);
    EXPECT_CODE(copy->Open("file", state.st_ino + 1), "ESTALE");
    EXPECT_CODE(copy->Open("missing", state.st_ino), "ENOENT");
    EXPECT_CODE(OpenPath(path + "/file", O_RDWR), "EROFS");
  }
  EXPECT_FALSE(test::Exists(path));
}

TEST(SubvolumeTest, OnlyCopiesAreRemoved) {
  const auto pool = MakePool();
  if (pool == nullptr) return;
  EXPECT_FALSE(*RemoveSubvolumeCopy(pool->At("copy")));
  EXPECT_CODE(RemoveSubvolumeCopy(pool->At("volumes")), "EINVAL");
  EXPECT_TRUE(test::Exists(pool->At("volumes")));
  ASSERT_TRUE(test::RunCommand("mkdir " + pool->At("directory")));
  EXPECT_CODE(RemoveSubvolumeCopy(pool->At("directory")), "EINVAL");
  ASSERT_TRUE(test::RunCommand("ln -s volumes " + pool->At("link")));
  EXPECT_FALSE(RemoveSubvolumeCopy(pool->At("link")).ok());
  test::WriteBytes(pool->At("volumes/file"), 0, {1});
  ASSERT_TRUE(test::RunCommand("btrfs subvolume snapshot -r " + pool->At("volumes") + " " +
                               pool->At("copy")));
  EXPECT_TRUE(*RemoveSubvolumeCopy(pool->At("copy")));
  EXPECT_FALSE(test::Exists(pool->At("copy")));
  EXPECT_TRUE(test::Exists(pool->At("volumes/file")));
}

// Volumes in the subvolume, whose snapshots lie beside it.
struct Bench {
  explicit Bench(const std::string& mount_options = "") : pool(MakePool(mount_options)) {
    if (pool != nullptr) volume = test::Volume::Make(*pool, "volumes/volume", "ext4", kSize);
  }
  bool ready() const { return volume != nullptr; }
  std::string copy() const { return pool->At("copy"); }

  std::unique_ptr<test::Pool> pool;
  std::unique_ptr<test::Volume> volume;
  test::TempDirectory directory;
};

// Mounts a snapshot and returns the content of a file in it.
std::vector<uint8_t> FileIn(const Bench& bench, const std::string& snapshot,
                            const std::string& name) {
  const std::string mount = bench.directory.At("other");
  EXPECT_TRUE(test::RunCommand("mkdir " + mount + " && mount -o ro,loop " +
                               bench.pool->At(snapshot) + " " + mount));
  std::vector<uint8_t> bytes = test::ReadBytes(mount + "/" + name);
  EXPECT_TRUE(test::RunCommand("umount " + mount + " && rmdir " + mount));
  return bytes;
}

TEST(CopiedSnapshotTest, HasTheLatestWritesAndLeavesNoCopy) {
  const Bench bench;
  if (!bench.ready()) return;
  Fragment(bench.volume->path());
  for (uint8_t round = 1; round <= 3; round++) {
    const std::vector<uint8_t> bytes(100'000, round);
    test::WriteBytes(bench.volume->mount_point() + "/file", 0, bytes);
    const std::string name = "snapshot" + std::to_string(round);
    Result<TakenSnapshots> outcome = TakeSnapshots({bench.volume->Member(name)}, bench.copy());
    ASSERT_OK(outcome);
    EXPECT_GT(outcome->frozen_ns, 0u);
    EXPECT_TRUE(bench.volume->IsThawed());
    EXPECT_TRUE((*StateOfFile(bench.pool->At(name)))->immutable);
    EXPECT_FALSE(test::Exists(bench.copy()));
    EXPECT_EQ(FileIn(bench, name, "file"), bytes);
  }
}

TEST(CopiedSnapshotTest, IsTakenFromACopyReplacingALeftOverOne) {
  const Bench bench;
  if (!bench.ready()) return;
  Fragment(bench.volume->path());
  ASSERT_TRUE(test::RunCommand("btrfs subvolume snapshot -r " + bench.pool->At("volumes") + " " +
                               bench.copy()));
  test::WriteBytes(bench.volume->mount_point() + "/file", 0, {7});
  ASSERT_OK(TakeSnapshots({bench.volume->Member("snapshot")}, bench.copy()));
  EXPECT_FALSE(test::Exists(bench.copy()));
  EXPECT_EQ(FileIn(bench, "snapshot", "file"), std::vector<uint8_t>({7}));
}

TEST(CopiedSnapshotTest, AFileOfSeveralPiecesIsClonedWhole) {
  const Bench bench;
  if (!bench.ready()) return;
  Fragment(bench.volume->path());
  // Over most of the volume, whose extents are more than one piece.
  std::vector<uint8_t> bytes(96 << 20);
  uint32_t state = 1;
  for (uint8_t& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<uint8_t>(state >> 24);
  }
  test::WriteBytes(bench.volume->mount_point() + "/file", 0, bytes);
  ASSERT_OK(TakeSnapshots({bench.volume->Member("snapshot")}, bench.copy()));
  EXPECT_FALSE(test::Exists(bench.copy()));
  EXPECT_EQ((*StateOfFile(bench.pool->At("snapshot")))->size_bytes, kSize);
  EXPECT_TRUE(FileIn(bench, "snapshot", "file") == bytes);
}

TEST(SubvolumeTest, TransactionsAreCommittedOnBtrfsOnly) {
  const auto pool = MakePool();
  if (pool == nullptr) return;
  const std::string path = pool->At("volumes");
  EXPECT_OK(CommitTransaction(OpenDirectory(path).get(), path));
  const test::TempDirectory other;
  EXPECT_CODE(CommitTransaction(OpenDirectory(other.At(".")).get(), "other"), "ENOTTY");
}

TEST(CopiedSnapshotTest, FewExtentsAreClonedWithoutACopy) {
  const Bench bench;
  if (!bench.ready()) return;
  // Nothing but a copy would touch this.
  ASSERT_TRUE(test::RunCommand("mkdir " + bench.copy()));
  ASSERT_OK(TakeSnapshots({bench.volume->Member("few")}, bench.copy()));
  EXPECT_TRUE(test::Exists(bench.copy()));
}

TEST(CopiedSnapshotTest, ClonesTheFileWhereNoCopyCanBeMade) {
  const Bench bench;
  if (!bench.ready()) return;
  Fragment(bench.volume->path());
  test::WriteBytes(bench.volume->mount_point() + "/file", 0, {9});
  ASSERT_TRUE(test::RunCommand("mkdir " + bench.copy()));
  ASSERT_OK(TakeSnapshots({bench.volume->Member("snapshot")}, bench.copy()));
  EXPECT_TRUE(test::Exists(bench.copy()));
  EXPECT_EQ(FileIn(bench, "snapshot", "file"), std::vector<uint8_t>({9}));
}

TEST(CopiedSnapshotTest, OneCopyServesAGroupWithARawAndADetachedVolume) {
  const Bench bench;
  if (!bench.ready()) return;
  const auto second = test::Volume::Make(*bench.pool, "volumes/second", "ext4", kSize);
  const auto raw = test::Volume::Make(*bench.pool, "volumes/raw", "", 16 << 20);
  if (second == nullptr || raw == nullptr) return;
  Fragment(bench.volume->path());
  Fragment(second->path());
  test::WriteBytes(bench.volume->mount_point() + "/file", 0, {1});
  test::WriteBytes(second->mount_point() + "/file", 0, {2});
  test::WriteBytes(raw->loop(), 4096, {3});
  const std::string detached = bench.pool->At("volumes/detached");
  ASSERT_OK(CreateSparseFile({detached + ".tmp", detached}, 8192));
  test::WriteBytes(detached, 0, {4});
  NewSnapshotFile last;
  last.source_path = detached;
  last.names = {bench.pool->At("s4.tmp"), bench.pool->At("s4")};
  ASSERT_OK(TakeSnapshots(
      {bench.volume->Member("s1"), second->Member("s2"), raw->Member("s3"), last}, bench.copy()));
  EXPECT_EQ(FileIn(bench, "s1", "file"), std::vector<uint8_t>({1}));
  EXPECT_EQ(test::ReadBytes(bench.pool->At("s3"))[4096], 3);
  EXPECT_EQ(test::ReadBytes(bench.pool->At("s4"))[0], 4);
  EXPECT_EQ(FileIn(bench, "s2", "file"), std::vector<uint8_t>({2}));
  EXPECT_TRUE(bench.volume->IsThawed() && second->IsThawed());
  EXPECT_FALSE(test::Exists(bench.copy()));
}

TEST(CopiedSnapshotTest, HasWhatAWriterHadFinishedBefore) {
  const Bench bench;
  if (!bench.ready()) return;
  Fragment(bench.volume->path());
  const std::string file = bench.volume->mount_point() + "/file";
  test::WriteBytes(file, 0, {0, 0, 0, 0});
  Result<UniqueFd> fd = OpenPath(file, O_RDWR);
  ASSERT_OK(fd);
  std::atomic<uint32_t> finished{0};
  std::atomic<bool> stops{false};
  std::thread writer([&] {
    for (uint32_t next = 1; !stops; next++) {
      if (pwrite(fd->get(), &next, sizeof next, 0) != sizeof next) break;
      finished = next;
    }
  });
  for (int round = 0; round < 3; round++) {
    const uint32_t before = finished;
    const std::string name = "snapshot" + std::to_string(round);
    EXPECT_OK(TakeSnapshots({bench.volume->Member(name)}, bench.copy()));
    const uint32_t after = finished;
    const std::vector<uint8_t> bytes = FileIn(bench, name, "file");
    uint32_t found = 0;
    EXPECT_EQ(bytes.size(), sizeof found);
    if (bytes.size() == sizeof found) std::memcpy(&found, bytes.data(), sizeof found);
    EXPECT_GE(found, before);
    EXPECT_LE(found, after + 1);
  }
  stops = true;
  writer.join();
}

TEST(CopiedSnapshotTest, AVolumeIsClonedFromACopyAndGrown) {
  const Bench bench;
  if (!bench.ready()) return;
  Fragment(bench.volume->path());
  test::WriteBytes(bench.volume->mount_point() + "/file", 0, {5});
  const NewSnapshotFile member = bench.volume->Member("volumes/clone");
  ASSERT_OK(CloneVolume(member, 2 * kSize, bench.copy()));
  EXPECT_EQ((*StateOfFile(member.names.final))->size_bytes, 2 * kSize);
  EXPECT_EQ(FileIn(bench, "volumes/clone", "file"), std::vector<uint8_t>({5}));
  EXPECT_FALSE(test::Exists(bench.copy()));
}

TEST(CopiedSnapshotTest, FilesWrittenInPlaceAreClonedWithoutACopy) {
  const Bench bench("nodatacow");
  if (!bench.ready()) return;
  Fragment(bench.volume->path());
  ASSERT_TRUE(test::RunCommand("mkdir " + bench.copy()));
  test::WriteBytes(bench.volume->mount_point() + "/file", 0, {6});
  ASSERT_OK(TakeSnapshots({bench.volume->Member("snapshot")}, bench.copy()));
  EXPECT_TRUE(test::Exists(bench.copy()));
  EXPECT_EQ(FileIn(bench, "snapshot", "file"), std::vector<uint8_t>({6}));
}

}  // namespace
}  // namespace blockdelta
