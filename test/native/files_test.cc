// Creating, cloning and removing files, and removing what killed calls left behind.
#include "native/device/files.h"

#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <unistd.h>

#include "native/base/seal.h"
#include "test/native/pool.h"
#include "test/native/status_assertions.h"

namespace blockdelta {
namespace {

constexpr uint64_t kSize = 1 << 20;

NewFileNames Names(const std::string& path) { return {path + ".tmp", path}; }

struct stat StateOf(const std::string& path) {
  struct stat state = {};
  EXPECT_EQ(stat(path.c_str(), &state), 0);
  return state;
}

class FilesTest : public test::InXfs {};

TEST_F(FilesTest, CreatesASparsePrivateFileUnderItsFinalNameOnly) {
  const std::string path = At("volume");
  EXPECT_OK(CreateSparseFile(Names(path), kSize));
  const struct stat state = StateOf(path);
  EXPECT_EQ(static_cast<uint64_t>(state.st_size), kSize);
  EXPECT_EQ(state.st_mode & 07777u, 0600u);
  EXPECT_LT(state.st_blocks, 16);
  EXPECT_FALSE(test::Exists(path + ".tmp"));
}

TEST_F(FilesTest, NeverReplacesAnExistingFile) {
  const std::string path = At("volume");
  test::WriteBytes(path, 0, {1, 2, 3});
  EXPECT_CODE(CreateSparseFile(Names(path), kSize), "EEXIST");
  EXPECT_EQ(test::ReadBytes(path), std::vector<uint8_t>({1, 2, 3}));
  EXPECT_FALSE(test::Exists(path + ".tmp"));
  // Nor one that appears while the new one is made.
  ASSERT_VALUE(file, NewFile::Create(Names(At("late"))));
  test::WriteBytes(At("late"), 0, {4});
  EXPECT_CODE(file.Publish(), "EEXIST");
  EXPECT_EQ(test::ReadBytes(At("late")), std::vector<uint8_t>({4}));
}

TEST_F(FilesTest, LeavesNothingOfANewFileThatIsGivenUp) {
  const std::string path = At("volume");
  EXPECT_OK(NewFile::Create(Names(path)));
  EXPECT_FALSE(test::Exists(path + ".tmp"));
}

TEST_F(FilesTest, RemovesTheTemporaryFileOfAKilledCallEvenIfImmutable) {
  const std::string path = At("volume");
  test::WriteBytes(path + ".tmp", 0, {1, 2, 3});
  EXPECT_OK(test::SetImmutable(path + ".tmp", true));
  EXPECT_EQ(unlink((path + ".tmp").c_str()), -1);
  EXPECT_OK(CreateSparseFile(Names(path), kSize));
  EXPECT_EQ(test::ReadBytes(path), std::vector<uint8_t>(kSize));
}

TEST_F(FilesTest, RemovesAnImmutableFileAndRemovingItAgainSucceeds) {
  const std::string path = At("snapshot");
  test::WriteBytes(path, 0, {1});
  EXPECT_OK(test::SetImmutable(path, true));
  for (const bool is_there : {true, false}) {
    ASSERT_VALUE(removed, RemoveFile(is_there ? path : At("no/such/directory")));
    EXPECT_EQ(removed, is_there);
  }
  EXPECT_FALSE(*RemoveFile(path));
}

TEST_F(FilesTest, ReportsTheStateOfAFileAsStatAndItsFlagsDo) {
  const std::string path = At("file");
  test::WriteBytes(path, 0, std::vector<uint8_t>(8192, 1));
  Result<std::optional<FileState>> state = StateOfFile(path);
  ASSERT_OK(state);
  ASSERT_TRUE(state->has_value());
  EXPECT_EQ((*state)->inode, StateOf(path).st_ino);
  EXPECT_EQ((*state)->size_bytes, 8192u);
  EXPECT_FALSE((*state)->immutable);
  EXPECT_OK(test::SetImmutable(path, true));
  EXPECT_TRUE((*StateOfFile(path))->immutable);
  state = StateOfFile(At("nowhere"));
  ASSERT_OK(state);
  EXPECT_FALSE(state->has_value());
}

class FilesOnPoolTest : public test::InEachPool {};
INSTANTIATE_TEST_SUITE_P(, FilesOnPoolTest, testing::Values("xfs", "btrfs"), test::KindOf);

TEST_P(FilesOnPoolTest, ClonesBytesAndZerosBehindThem) {
  ASSERT_VALUE(supported, ProbeReflink(pool_->mount_point()));
  EXPECT_TRUE(supported);
  EXPECT_TRUE(
      test::RunCommand("test -z \"$(find " + pool_->mount_point() + " -name '.reflink*')\""));
  const std::string source = At("source");
  const std::string clone = At("clone");
  std::vector<uint8_t> bytes(12345, 7);
  test::WriteBytes(source, 0, bytes);
  EXPECT_CODE(CloneFile(source, Names(clone), kSize), kScanMutable);
  EXPECT_OK(test::SetImmutable(source, true));
  EXPECT_CODE(CloneFile(source, Names(clone), 12344), "EINVAL");
  EXPECT_OK(CloneFile(source, Names(clone), kSize));
  bytes.resize(kSize);
  EXPECT_EQ(test::ReadBytes(clone), bytes);
  EXPECT_EQ(StateOf(clone).st_mode & 07777u, 0600u);
  EXPECT_CODE(CloneFile(source, Names(clone), kSize), "EEXIST");
  EXPECT_CODE(CloneFile(At("nowhere"), Names(At("x")), kSize), "ENOENT");
}

TEST_P(FilesOnPoolTest, RefusesToCloneASealedFileThatWasWrittenOrTruncated) {
  const std::string source = At("source");
  test::WriteBytes(source, 0, std::vector<uint8_t>(65536, 1));
  {
    ASSERT_VALUE(fd, OpenPath(source, O_RDWR));
    EXPECT_OK(WriteSeal(fd.get(), source));
  }
  const auto clone = [&](const std::string& name) {
    EXPECT_OK(test::SetImmutable(source, true));
    Status status = CloneFile(source, Names(At(name)), 65536);
    EXPECT_OK(test::SetImmutable(source, false));
    return status;
  };
  EXPECT_OK(clone("unchanged"));
  EXPECT_OK(clone("flag cleared and set"));
  EXPECT_TRUE(
      test::RunCommand("mv " + source + " " + source + "2; cp -a " + source + "2 " + source));
  EXPECT_OK(clone("copied with its times"));
  test::WriteBytes(source, 4096, std::vector<uint8_t>(4096, 2));
  EXPECT_CODE(clone("written"), kScanMutable);
  EXPECT_TRUE(test::RunCommand("touch -r " + source + "2 " + source));
  EXPECT_OK(clone("written, with forged times"));
  EXPECT_TRUE(test::RunCommand("truncate -s 32768 " + source));
  EXPECT_TRUE(test::RunCommand("touch -r " + source + "2 " + source));
  EXPECT_CODE(clone("truncated, with forged times"), kScanMutable);
}

class FilesOnBtrfsTest : public test::InBtrfs {};

TEST_F(FilesOnBtrfsTest, ClonesFilesWithoutCopyOnWriteAsSuchAndOthersAsOthers) {
  EXPECT_TRUE(
      test::RunCommand("cd " + pool_->mount_point() +
                       " && touch cow nocow && chattr +C nocow && mkdir dir && chattr +C dir"));
  const auto flags = [](const std::string& path) {
    Result<UniqueFd> fd = OpenPath(path, O_RDONLY);
    int value = 0;
    EXPECT_OK(fd);
    if (fd.ok()) {
      EXPECT_OK(Ioctl(fd->get(), FS_IOC_GETFLAGS, &value, "", path));
    }
    return value & FS_NOCOW_FL;
  };
  test::WriteBytes(At("cow"), 0, std::vector<uint8_t>(65536, 1));
  test::WriteBytes(At("nocow"), 0, std::vector<uint8_t>(65536, 1));
  for (const char* name : {"cow", "nocow"}) EXPECT_OK(test::SetImmutable(At(name), true));
  EXPECT_OK(CloneFile(At("nocow"), Names(At("nocow-clone")), 65536));
  EXPECT_NE(flags(At("nocow-clone")), 0);
  // A new file in this directory is not copied on write unless its flag says so.
  EXPECT_OK(CloneFile(At("cow"), Names(At("dir/cow-clone")), 65536));
  EXPECT_EQ(flags(At("dir/cow-clone")), 0);
}

TEST_F(FilesTest, ReportsMissingCloneSupportAndLeavesNothing) {
  const auto pool = test::Pool::Make("ext4");
  if (pool == nullptr) return;
  ASSERT_VALUE(supported, ProbeReflink(pool->mount_point()));
  EXPECT_FALSE(supported);
  test::WriteBytes(pool->At("source"), 0, {1});
  EXPECT_OK(test::SetImmutable(pool->At("source"), true));
  EXPECT_CODE(CloneFile(pool->At("source"), Names(pool->At("clone")), 10), "EOPNOTSUPP");
  EXPECT_TRUE(!test::Exists(pool->At("clone.tmp")) && !test::Exists(pool->At("clone")));
  EXPECT_CODE(ProbeReflink(pool->At("nowhere")), "ENOENT");
}

}  // namespace
}  // namespace blockdelta
