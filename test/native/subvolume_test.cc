// Subvolumes and their copies, and snapshots of volumes that lie in one.
#include "native/device/subvolume.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "native/device/take_snapshots.h"
#include "native/scan/tree_search_source.h"
#include "test/native/pool.h"
#include "test/native/status_assertions.h"

namespace blockdelta::test {
namespace {

constexpr uint64_t kSize = 128 << 20;

UniqueFd OpenDirectory(const std::string& path) { return Open(path, O_RDONLY | O_DIRECTORY); }

// On btrfs, with the subvolume `volumes`.
class SubvolumeTest : public InBtrfs {
 protected:
  SubvolumeTest() { EXPECT_TRUE(ValueOf(MakeSubvolume(Names(At("volumes"))))); }
};

// Gives the file extents that read as zeros, one for each second block that was a hole.
void Fragment(const std::string& path) {
  const UniqueFd fd = Open(path, O_RDWR);
  for (uint64_t at = 0; at < kSize; at += 8192) {
    ASSERT_EQ(fallocate(fd.get(), FALLOC_FL_KEEP_SIZE, static_cast<off_t>(at), 4096), 0);
  }
  ASSERT_OK(SyncFd(fd.get(), path));
}

TEST_F(SubvolumeTest, IsMadePrivateAndOnce) {
  const std::string path = At("volumes");
  EXPECT_EQ(StateOf(path).st_mode & 07777u, 0700u);
  EXPECT_TRUE(*IsSubvolume(OpenDirectory(path).get(), path));
  EXPECT_FALSE(ValueOf(MakeSubvolume(Names(path))));
  EXPECT_FALSE(Exists(path + ".tmp"));
}

TEST_F(SubvolumeTest, ReplacesAnEmptyLeftOverAndNoOther) {
  const NewFileNames names = Names(At("other"));
  ASSERT_TRUE(RunCommand("btrfs subvolume create " + names.temporary));
  EXPECT_TRUE(*MakeSubvolume(names));
  ASSERT_TRUE(RunCommand("mkdir " + names.temporary + " && touch " + names.temporary +
                         "/file && rmdir " + names.final));
  EXPECT_CODE(MakeSubvolume(names), "ENOTEMPTY");
  EXPECT_TRUE(Exists(names.temporary + "/file"));
}

TEST_F(SubvolumeTest, IsNotMadeOnAnotherFileSystemAndTransactionsAreNotCommittedThere) {
  EXPECT_OK(CommitTransaction(OpenDirectory(At("volumes")).get(), "volumes"));
  const Pool xfs("xfs");
  EXPECT_FALSE(ValueOf(MakeSubvolume(Names(xfs.At("volumes")))));
  EXPECT_FALSE(Exists(xfs.At("volumes")));
  const UniqueFd mount = OpenDirectory(xfs.mount_point());
  EXPECT_FALSE(*IsSubvolume(mount.get(), xfs.mount_point()));
  EXPECT_CODE(CommitTransaction(mount.get(), "other"), "ENOTTY");
}

TEST_F(SubvolumeTest, RefusesNamesThatAreNone) {
  const std::string long_name = At(std::string(300, 'x'));
  EXPECT_CODE(MakeSubvolume({long_name, long_name}), "ENAMETOOLONG");
  EXPECT_CODE(SubvolumeCopy::Make(OpenDirectory(At("volumes")).get(), long_name), "ENAMETOOLONG");
  EXPECT_CODE(RemoveSubvolumeCopy(At("..")), "EINVAL");
  EXPECT_CODE(RemoveSubvolumeCopy(At("volumes/")), "EINVAL");
}

TEST_F(SubvolumeTest, ACopyHasUnsyncedWritesAndKeepsThem) {
  const std::string file = At("volumes/file");
  const std::vector<uint8_t> old_bytes(8192, 1);
  WriteBytes(file, 0, old_bytes);
  const ino_t inode = StateOf(file).st_ino;
  const std::string path = At("copy");
  {
    ASSERT_VALUE(copy, SubvolumeCopy::Make(OpenDirectory(At("volumes")).get(), path));
    WriteBytes(file, 0, std::vector<uint8_t>(8192, 2));
    ASSERT_OK(copy.Open("file", inode));
    EXPECT_EQ(ReadBytes(path + "/file"), old_bytes);
    EXPECT_CODE(copy.Open("file", inode + 1), "ESTALE");
    EXPECT_CODE(copy.Open("missing", inode), "ENOENT");
    EXPECT_CODE(OpenPath(path + "/file", O_RDWR), "EROFS");
  }
  EXPECT_FALSE(Exists(path));
}

TEST_F(SubvolumeTest, OnlyCopiesAreRemoved) {
  EXPECT_FALSE(*RemoveSubvolumeCopy(At("copy")));
  EXPECT_CODE(RemoveSubvolumeCopy(At("volumes")), "EINVAL");
  EXPECT_TRUE(Exists(At("volumes")));
  ASSERT_TRUE(RunCommand("mkdir " + At("directory")));
  EXPECT_CODE(RemoveSubvolumeCopy(At("directory")), "EINVAL");
  ASSERT_TRUE(RunCommand("ln -s volumes " + At("link")));
  EXPECT_FALSE(RemoveSubvolumeCopy(At("link")).ok());
  WriteBytes(At("volumes/file"), 0, {1});
  ASSERT_TRUE(RunCommand("btrfs subvolume snapshot -r " + At("volumes") + " " + At("copy")));
  EXPECT_TRUE(*RemoveSubvolumeCopy(At("copy")));
  EXPECT_FALSE(Exists(At("copy")));
  EXPECT_TRUE(Exists(At("volumes/file")));
}

// A mounted volume in the subvolume, split into many extents, whose snapshots lie beside it.
class CopiedSnapshotTest : public SubvolumeTest {
 protected:
  CopiedSnapshotTest() { Fragment(volume_->path()); }

  // Of the file "file" in the volume, and in a snapshot of one.
  void Write(const std::vector<uint8_t>& bytes) {
    WriteBytes(volume_->mount_point() + "/file", 0, bytes);
  }
  std::vector<uint8_t> FileIn(const std::string& snapshot) const {
    std::vector<uint8_t> bytes;
    WithMounted(At(snapshot), "ro",
                [&](const std::string& mount) { bytes = ReadBytes(mount + "/file"); });
    return bytes;
  }
  Result<TakenSnapshots> Take(const std::string& name) const {
    return TakeSnapshots({volume_->Member(name)}, {At("copy"), {}});
  }

  Volume* const volume_ = Make("volumes/volume", "ext4", kSize);
};

TEST_F(CopiedSnapshotTest, HasTheLatestWritesAndLeavesNoCopyNorOneOfAKilledCall) {
  for (uint8_t round = 1; round <= 3; round++) {
    const std::vector<uint8_t> bytes(100'000, round);
    Write(bytes);
    if (round == 3) {
      ASSERT_TRUE(RunCommand("btrfs subvolume snapshot -r " + At("volumes") + " " + At("copy")));
    }
    const std::string name = "snapshot" + std::to_string(round);
    ASSERT_VALUE(outcome, Take(name));
    EXPECT_GT(outcome.frozen_ns, 0u);
    EXPECT_TRUE(volume_->IsThawed());
    EXPECT_TRUE((*StateOfFile(At(name)))->immutable);
    EXPECT_FALSE(Exists(At("copy")));
    EXPECT_EQ(FileIn(name), bytes);
  }
}

TEST_F(CopiedSnapshotTest, AFileOfSeveralPiecesIsClonedWholeAndGrown) {
  // Over most of the volume, whose extents are more than one piece.
  std::vector<uint8_t> bytes(96 << 20);
  uint32_t state = 1;
  for (size_t at = 0; at < bytes.size(); at += sizeof state) {
    state = state * 1664525 + 1013904223;
    std::memcpy(&bytes[at], &state, sizeof state);
  }
  Write(bytes);
  ASSERT_OK(Take("snapshot"));
  EXPECT_FALSE(Exists(At("copy")));
  EXPECT_EQ((*StateOfFile(At("snapshot")))->size_bytes, kSize);
  EXPECT_TRUE(FileIn("snapshot") == bytes);
  ASSERT_OK(CloneVolume(volume_->Member("volumes/clone"), 2 * kSize, {At("copy"), {}}));
  EXPECT_EQ((*StateOfFile(At("volumes/clone")))->size_bytes, 2 * kSize);
  EXPECT_TRUE(FileIn("volumes/clone") == bytes);
  EXPECT_FALSE(Exists(At("copy")));
}

TEST_F(CopiedSnapshotTest, AFileIsClonedItselfIfItHasFewExtentsIsWrittenInPlaceOrCannotBeCopied) {
  const Volume* const few = Make("volumes/few", "ext4", kSize);
  ASSERT_TRUE(RunCommand("chattr +C " + At("volumes")));
  const Volume* const in_place = Make("volumes/in-place", "ext4", kSize);
  Fragment(in_place->path());
  WriteBytes(in_place->mount_point() + "/file", 0, {6});
  // Whoever makes a copy removes this one before, as that of a killed call.
  ASSERT_TRUE(RunCommand("btrfs subvolume snapshot -r " + At("volumes") + " " + At("copy")));
  ASSERT_OK(TakeSnapshots({few->Member("s1")}, {At("copy"), {}}));
  ASSERT_OK(TakeSnapshots({in_place->Member("s2")}, {At("copy"), {}}));
  EXPECT_TRUE(Exists(At("copy")));
  EXPECT_EQ(FileIn("s2"), std::vector<uint8_t>({6}));
  ASSERT_TRUE(RunCommand("btrfs subvolume delete " + At("copy") + " && mkdir " + At("copy")));
  Write({9});
  ASSERT_OK(Take("s3"));
  EXPECT_EQ(FileIn("s3"), std::vector<uint8_t>({9}));
}

TEST_F(CopiedSnapshotTest, OneCopyServesAGroupWithARawAndADetachedVolume) {
  const Volume* const second = Make("volumes/second", "ext4", kSize);
  const Volume* const raw = Make("volumes/raw", "", 16 << 20);
  Fragment(second->path());
  Write({1});
  WriteBytes(second->mount_point() + "/file", 0, {2});
  WriteBytes(raw->loop(), 4096, {3});
  const std::string detached = MakeFile(At("volumes/detached"), 8192);
  WriteBytes(detached, 0, {4});
  const NewSnapshotFile last = {detached, Names(At("s4")), {}, {}};
  ASSERT_OK(TakeSnapshots({volume_->Member("s1"), second->Member("s2"), raw->Member("s3"), last},
                          {At("copy"), {}}));
  EXPECT_EQ(FileIn("s1"), std::vector<uint8_t>({1}));
  EXPECT_EQ(FileIn("s2"), std::vector<uint8_t>({2}));
  EXPECT_EQ(ReadBytes(At("s3"))[4096], 3);
  EXPECT_EQ(ReadBytes(At("s4"))[0], 4);
  EXPECT_TRUE(volume_->IsThawed() && second->IsThawed());
  EXPECT_FALSE(Exists(At("copy")));
}

TEST_F(CopiedSnapshotTest, HasWhatAWriterHadFinishedBefore) {
  Write({0, 0, 0, 0});
  const UniqueFd fd = Open(volume_->mount_point() + "/file", O_RDWR);
  std::atomic<uint32_t> finished{0};
  const Background writer([&] {
    const uint32_t next = finished + 1;
    if (pwrite(fd.get(), &next, sizeof next, 0) == sizeof next) finished = next;
  });
  for (int round = 0; round < 3; round++) {
    const uint32_t before = finished;
    const std::string name = "snapshot" + std::to_string(round);
    EXPECT_OK(Take(name));
    const uint32_t after = finished;
    const std::vector<uint8_t> bytes = FileIn(name);
    uint32_t found = 0;
    EXPECT_EQ(bytes.size(), sizeof found);
    if (bytes.size() == sizeof found) std::memcpy(&found, bytes.data(), sizeof found);
    EXPECT_GE(found, before);
    EXPECT_LE(found, after + 1);
  }
}

}  // namespace
}  // namespace blockdelta::test
