// Creating, cloning and removing files, and removing what killed calls left behind.
#include "native/device/files.h"

#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <unistd.h>

#include "native/base/seal.h"
#include "test/native/pool.h"
#include "test/native/status_assertions.h"

namespace blockdelta::test {
namespace {

constexpr uint64_t kSize = 1 << 20;

class FilesTest : public InXfs {};

TEST_F(FilesTest, CreatesASparsePrivateFileUnderItsFinalNameOnly) {
  const std::string path = At("volume");
  EXPECT_OK(CreateSparseFile(Names(path), kSize));
  const struct stat state = StateOf(path);
  EXPECT_EQ(static_cast<uint64_t>(state.st_size), kSize);
  EXPECT_EQ(state.st_mode & 07777u, 0600u);
  EXPECT_LT(state.st_blocks, 16);
  EXPECT_FALSE(Exists(path + ".tmp"));
}

TEST_F(FilesTest, NeverReplacesAnExistingFile) {
  const std::string path = At("volume");
  WriteBytes(path, 0, {1, 2, 3});
  EXPECT_CODE(CreateSparseFile(Names(path), kSize), "EEXIST");
  EXPECT_EQ(ReadBytes(path), std::vector<uint8_t>({1, 2, 3}));
  EXPECT_FALSE(Exists(path + ".tmp"));
  // Nor one that appears while the new one is made.
  ASSERT_VALUE(file, NewFile::Create(Names(At("late"))));
  WriteBytes(At("late"), 0, {4});
  EXPECT_CODE(file.Publish(), "EEXIST");
  EXPECT_EQ(ReadBytes(At("late")), std::vector<uint8_t>({4}));
}

TEST_F(FilesTest, LeavesNothingOfANewFileThatIsGivenUp) {
  const std::string path = At("volume");
  EXPECT_OK(NewFile::Create(Names(path)));
  EXPECT_FALSE(Exists(path + ".tmp"));
}

TEST_F(FilesTest, RemovesTheTemporaryFileOfAKilledCallEvenIfImmutable) {
  const std::string path = At("volume");
  WriteBytes(path + ".tmp", 0, {1, 2, 3});
  EXPECT_OK(SetImmutable(path + ".tmp", true));
  EXPECT_EQ(unlink((path + ".tmp").c_str()), -1);
  EXPECT_OK(CreateSparseFile(Names(path), kSize));
  EXPECT_EQ(ReadBytes(path), std::vector<uint8_t>(kSize));
}

TEST_F(FilesTest, RemovesAnImmutableFileAndRemovingItAgainSucceeds) {
  const std::string path = At("snapshot");
  WriteBytes(path, 0, {1});
  EXPECT_OK(SetImmutable(path, true));
  EXPECT_TRUE(ValueOf(RemoveFile(path)));
  EXPECT_FALSE(ValueOf(RemoveFile(path)));
  EXPECT_FALSE(ValueOf(RemoveFile(At("no/such/directory"))));
}

TEST_F(FilesTest, FreezesAFileAndGoesOnWhereAKilledCallHasStopped) {
  const std::string path = At("replica");
  const NewFileNames names = Names(path);
  EXPECT_CODE(FreezeFile(names), "ENOENT");
  WriteBytes(names.temporary, 0, {1, 2, 3});
  EXPECT_OK(FreezeFile(names));
  EXPECT_FALSE(Exists(names.temporary));
  const auto expect_frozen = [&] {
    ASSERT_VALUE(state, StateOfFile(path));
    ASSERT_TRUE(state.has_value());
    EXPECT_TRUE(state->immutable && state->matches_seal);
    EXPECT_EQ(StateOf(path).st_mode & 07777u, 0400u);
    EXPECT_EQ(ReadBytes(path), std::vector<uint8_t>({1, 2, 3}));
  };
  expect_frozen();
  EXPECT_OK(FreezeFile(names));
  // Killed after the rename.
  EXPECT_OK(SetImmutable(path, false));
  EXPECT_OK(FreezeFile(names));
  expect_frozen();
  // Killed after the seal.
  EXPECT_OK(SetImmutable(path, false));
  EXPECT_EQ(rename(path.c_str(), names.temporary.c_str()), 0);
  EXPECT_OK(FreezeFile(names));
  expect_frozen();
  WriteBytes(names.temporary, 0, {4});
  EXPECT_CODE(FreezeFile(names), "EEXIST");
  EXPECT_TRUE(ValueOf(RemoveFile(names.temporary)));
  // Changed by others since.
  EXPECT_OK(SetImmutable(path, false));
  EXPECT_EQ(chmod(path.c_str(), 0600), 0);
  WriteBytes(path, 1, {9});
  EXPECT_CODE(FreezeFile(names), kScanMutable);
  EXPECT_OK(SetImmutable(path, false));
}

TEST_F(FilesTest, ReportsTheStateOfAFileAsStatAndItsFlagsDo) {
  const std::string path = At("file");
  WriteBytes(path, 0, std::vector<uint8_t>(8192, 1));
  ASSERT_VALUE(state, StateOfFile(path));
  ASSERT_TRUE(state.has_value());
  EXPECT_EQ(state->inode, StateOf(path).st_ino);
  EXPECT_EQ(state->size_bytes, 8192u);
  EXPECT_FALSE(state->immutable);
  EXPECT_OK(SetImmutable(path, true));
  EXPECT_TRUE((*StateOfFile(path))->immutable);
  EXPECT_FALSE(ValueOf(StateOfFile(At("nowhere"))).has_value());
}

class FilesOnPoolTest : public InEachPool {};
INSTANTIATE_TEST_SUITE_P(, FilesOnPoolTest, testing::Values("xfs", "btrfs"), KindOf);

TEST_P(FilesOnPoolTest, ClonesBytesAndZerosBehindThem) {
  EXPECT_TRUE(ValueOf(ProbeReflink(pool_.mount_point())));
  EXPECT_TRUE(RunCommand("test -z \"$(find " + pool_.mount_point() + " -name '.reflink*')\""));
  const std::string source = At("source");
  const std::string clone = At("clone");
  std::vector<uint8_t> bytes(12345, 7);
  WriteBytes(source, 0, bytes);
  EXPECT_CODE(CloneFile(source, Names(clone), kSize), kScanMutable);
  EXPECT_OK(SetImmutable(source, true));
  EXPECT_CODE(CloneFile(source, Names(clone), 12344), "EINVAL");
  EXPECT_OK(CloneFile(source, Names(clone), kSize));
  bytes.resize(kSize);
  EXPECT_EQ(ReadBytes(clone), bytes);
  EXPECT_EQ(StateOf(clone).st_mode & 07777u, 0600u);
  EXPECT_CODE(CloneFile(source, Names(clone), kSize), "EEXIST");
  EXPECT_CODE(CloneFile(At("nowhere"), Names(At("x")), kSize), "ENOENT");
}

TEST_P(FilesOnPoolTest, RefusesToCloneASealedFileThatWasWrittenOrTruncated) {
  const std::string source = At("source");
  WriteBytes(source, 0, std::vector<uint8_t>(65536, 1));
  EXPECT_OK(WriteSeal(Open(source, O_RDWR).get(), source));
  const auto clone = [&](const std::string& name) {
    EXPECT_OK(SetImmutable(source, true));
    Status status = CloneFile(source, Names(At(name)), 65536);
    EXPECT_OK(SetImmutable(source, false));
    return status;
  };
  EXPECT_OK(clone("unchanged"));
  EXPECT_OK(clone("flag cleared and set"));
  EXPECT_TRUE(RunCommand("mv " + source + " " + source + "2; cp -a " + source + "2 " + source));
  EXPECT_OK(clone("copied with its times"));
  WriteBytes(source, 4096, std::vector<uint8_t>(4096, 2));
  EXPECT_CODE(clone("written"), kScanMutable);
  EXPECT_TRUE(RunCommand("touch -r " + source + "2 " + source));
  EXPECT_OK(clone("written, with forged times"));
  EXPECT_TRUE(RunCommand("truncate -s 32768 " + source));
  EXPECT_TRUE(RunCommand("touch -r " + source + "2 " + source));
  EXPECT_CODE(clone("truncated, with forged times"), kScanMutable);
}

class FilesOnBtrfsTest : public InBtrfs {};

TEST_F(FilesOnBtrfsTest, ClonesFilesWithoutCopyOnWriteAsSuchAndOthersAsOthers) {
  EXPECT_TRUE(RunCommand("cd " + pool_.mount_point() +
                         " && touch cow nocow && chattr +C nocow && mkdir dir && chattr +C dir"));
  const auto flags = [](const std::string& path) {
    int value = 0;
    EXPECT_OK(Ioctl(Open(path, O_RDONLY).get(), FS_IOC_GETFLAGS, &value, "", path));
    return value & FS_NOCOW_FL;
  };
  WriteBytes(At("cow"), 0, std::vector<uint8_t>(65536, 1));
  WriteBytes(At("nocow"), 0, std::vector<uint8_t>(65536, 1));
  for (const char* name : {"cow", "nocow"}) EXPECT_OK(SetImmutable(At(name), true));
  EXPECT_OK(CloneFile(At("nocow"), Names(At("nocow-clone")), 65536));
  EXPECT_NE(flags(At("nocow-clone")), 0);
  // A new file in this directory is not copied on write unless its flag says so.
  EXPECT_OK(CloneFile(At("cow"), Names(At("dir/cow-clone")), 65536));
  EXPECT_EQ(flags(At("dir/cow-clone")), 0);
}

TEST_F(FilesTest, ReportsMissingCloneSupportAndLeavesNothing) {
  const Pool pool("ext4");
  EXPECT_FALSE(ValueOf(ProbeReflink(pool.mount_point())));
  WriteBytes(pool.At("source"), 0, {1});
  EXPECT_OK(SetImmutable(pool.At("source"), true));
  EXPECT_CODE(CloneFile(pool.At("source"), Names(pool.At("clone")), 10), "EOPNOTSUPP");
  EXPECT_TRUE(!Exists(pool.At("clone.tmp")) && !Exists(pool.At("clone")));
  EXPECT_CODE(ProbeReflink(pool.At("nowhere")), "ENOENT");
}

}  // namespace
}  // namespace blockdelta::test
