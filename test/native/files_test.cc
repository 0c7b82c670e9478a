// Making, cloning and removing files, and what killed calls left behind.
#include "native/device/files.h"

#include <linux/fs.h>
#include <sys/stat.h>
#include <unistd.h>

#include "native/base/seal.h"
#include "test/native/harness.h"
#include "test/native/pool.h"

namespace blockdelta {
namespace {

constexpr uint64_t kSize = 1 << 20;

NewFileNames Names(const std::string& path) { return {path + ".tmp", path}; }

struct stat StateOf(const std::string& path) {
  struct stat state = {};
  EXPECT(stat(path.c_str(), &state) == 0);
  return state;
}

TEST("a new file is sparse, private and under its final name only") {
  const test::TempDirectory directory;
  const std::string path = directory.At("volume");
  EXPECT_OK(CreateSparseFile(Names(path), kSize));
  const struct stat state = StateOf(path);
  EXPECT_EQ(static_cast<uint64_t>(state.st_size), kSize);
  EXPECT_EQ(state.st_mode & 07777u, 0600u);
  EXPECT(state.st_blocks < 16);
  EXPECT(!test::Exists(path + ".tmp"));
}

TEST("a file that exists is never replaced") {
  const test::TempDirectory directory;
  const std::string path = directory.At("volume");
  test::WriteBytes(path, 0, {1, 2, 3});
  EXPECT_CODE(CreateSparseFile(Names(path), kSize), "EEXIST");
  EXPECT(test::ReadBytes(path) == std::vector<uint8_t>({1, 2, 3}));
  EXPECT(!test::Exists(path + ".tmp"));
  // Nor one that appears while the new one is made.
  Result<NewFile> file = NewFile::Create(Names(directory.At("late")));
  if (!EXPECT_OK(file)) return;
  test::WriteBytes(directory.At("late"), 0, {4});
  EXPECT_CODE(file->Publish(), "EEXIST");
  EXPECT(test::ReadBytes(directory.At("late")) == std::vector<uint8_t>({4}));
}

TEST("a new file that is given up leaves nothing") {
  const test::TempDirectory directory;
  const std::string path = directory.At("volume");
  EXPECT_OK(NewFile::Create(Names(path)));
  EXPECT(!test::Exists(path + ".tmp"));
}

TEST("a temporary file of a killed call is removed, even an immutable one") {
  const auto pool = test::Pool::Make("xfs");
  if (pool == nullptr) return;
  const std::string path = pool->At("volume");
  test::WriteBytes(path + ".tmp", 0, {1, 2, 3});
  EXPECT_OK(SetImmutable(path + ".tmp", true));
  EXPECT(unlink((path + ".tmp").c_str()) == -1);
  EXPECT_OK(CreateSparseFile(Names(path), kSize));
  EXPECT(test::ReadBytes(path) == std::vector<uint8_t>(kSize));
}

TEST("an immutable file is removed, and removing it again is no error") {
  const auto pool = test::Pool::Make("xfs");
  if (pool == nullptr) return;
  const std::string path = pool->At("snapshot");
  test::WriteBytes(path, 0, {1});
  EXPECT_OK(SetImmutable(path, true));
  Result<bool> removed = RemoveFile(path);
  EXPECT(EXPECT_OK(removed) && *removed);
  removed = RemoveFile(path);
  EXPECT(EXPECT_OK(removed) && !*removed);
  removed = RemoveFile(pool->At("no/such/directory"));
  EXPECT(EXPECT_OK(removed) && !*removed);
}

TEST("the state of a file is what stat and its flags say") {
  const auto pool = test::Pool::Make("xfs");
  if (pool == nullptr) return;
  const std::string path = pool->At("file");
  test::WriteBytes(path, 0, std::vector<uint8_t>(8192, 1));
  Result<std::optional<FileState>> state = StateOfFile(path);
  if (!EXPECT_OK(state) || !EXPECT(state->has_value())) return;
  EXPECT_EQ((*state)->inode, StateOf(path).st_ino);
  EXPECT_EQ((*state)->size_bytes, 8192u);
  EXPECT(!(*state)->immutable);
  EXPECT_OK(SetImmutable(path, true));
  EXPECT((*StateOfFile(path))->immutable);
  state = StateOfFile(pool->At("nowhere"));
  EXPECT(EXPECT_OK(state) && !state->has_value());
}

void CheckClone(const char* kind) {
  const auto pool = test::Pool::Make(kind);
  if (pool == nullptr) return;
  Result<bool> supported = ProbeReflink(pool->mount_point());
  EXPECT(EXPECT_OK(supported) && *supported);
  EXPECT(test::RunCommand("test -z \"$(find " + pool->mount_point() + " -name '.reflink*')\""));
  const std::string source = pool->At("source");
  const std::string clone = pool->At("clone");
  std::vector<uint8_t> bytes(12345, 7);
  test::WriteBytes(source, 0, bytes);
  EXPECT_CODE(CloneFile(source, Names(clone), kSize), kScanMutable);
  EXPECT_OK(SetImmutable(source, true));
  EXPECT_CODE(CloneFile(source, Names(clone), 12344), "EINVAL");
  EXPECT_OK(CloneFile(source, Names(clone), kSize));
  bytes.resize(kSize);
  EXPECT(test::ReadBytes(clone) == bytes);
  EXPECT_EQ(StateOf(clone).st_mode & 07777u, 0600u);
  EXPECT_CODE(CloneFile(source, Names(clone), kSize), "EEXIST");
  EXPECT_CODE(CloneFile(pool->At("nowhere"), Names(pool->At("x")), kSize), "ENOENT");
}

TEST("a clone has the bytes of its source and zeros behind them on xfs") { CheckClone("xfs"); }
TEST("a clone has the bytes of its source and zeros behind them on btrfs") { CheckClone("btrfs"); }

void CheckSeal(const char* type) {
  const auto pool = test::Pool::Make(type);
  if (pool == nullptr) return;
  const std::string source = pool->At("source");
  test::WriteBytes(source, 0, std::vector<uint8_t>(65536, 1));
  {
    Result<UniqueFd> fd = OpenPath(source, O_RDWR);
    if (!EXPECT_OK(fd)) return;
    EXPECT_OK(WriteSeal(fd->get(), source));
  }
  const auto clone = [&](const std::string& name) {
    EXPECT_OK(SetImmutable(source, true));
    Status status = CloneFile(source, Names(pool->At(name)), 65536);
    EXPECT_OK(SetImmutable(source, false));
    return status;
  };
  EXPECT_OK(clone("unchanged"));
  EXPECT_OK(clone("flag cleared and set"));
  EXPECT(test::RunCommand("mv " + source + " " + source + "2; cp -a " + source + "2 " + source));
  EXPECT_OK(clone("copied with its times"));
  test::WriteBytes(source, 4096, std::vector<uint8_t>(4096, 2));
  EXPECT_CODE(clone("written"), kScanMutable);
  EXPECT(test::RunCommand("touch -r " + source + "2 " + source));
  EXPECT_OK(clone("written by somebody who forges times"));
  EXPECT(test::RunCommand("truncate -s 32768 " + source));
  EXPECT(test::RunCommand("touch -r " + source + "2 " + source));
  EXPECT_CODE(clone("cut short by somebody who forges times"), kScanMutable);
}

TEST("a sealed file that was written to or cut short is not cloned, on xfs") { CheckSeal("xfs"); }
TEST("a sealed file that was written to or cut short is not cloned, on btrfs") {
  CheckSeal("btrfs");
}

TEST("files that are not copied on write are cloned as such, and others as others") {
  const auto pool = test::Pool::Make("btrfs");
  if (pool == nullptr) return;
  EXPECT(test::RunCommand("cd " + pool->mount_point() +
                          " && touch cow nocow && chattr +C nocow && mkdir dir && chattr +C dir"));
  const auto flags = [](const std::string& path) {
    Result<UniqueFd> fd = OpenPath(path, O_RDONLY);
    int value = 0;
    if (EXPECT_OK(fd)) EXPECT_OK(Ioctl(fd->get(), FS_IOC_GETFLAGS, &value, "", path));
    return value & FS_NOCOW_FL;
  };
  test::WriteBytes(pool->At("cow"), 0, std::vector<uint8_t>(65536, 1));
  test::WriteBytes(pool->At("nocow"), 0, std::vector<uint8_t>(65536, 1));
  for (const char* name : {"cow", "nocow"}) EXPECT_OK(SetImmutable(pool->At(name), true));
  EXPECT_OK(CloneFile(pool->At("nocow"), Names(pool->At("nocow-clone")), 65536));
  EXPECT(flags(pool->At("nocow-clone")) != 0);
  // A new file in this directory is not copied on write unless told so.
  EXPECT_OK(CloneFile(pool->At("cow"), Names(pool->At("dir/cow-clone")), 65536));
  EXPECT(flags(pool->At("dir/cow-clone")) == 0);
}

TEST("where cloning is not supported the probe says so and a clone leaves nothing") {
  const auto pool = test::Pool::Make("ext4");
  if (pool == nullptr) return;
  Result<bool> supported = ProbeReflink(pool->mount_point());
  EXPECT(EXPECT_OK(supported) && !*supported);
  test::WriteBytes(pool->At("source"), 0, {1});
  EXPECT_OK(SetImmutable(pool->At("source"), true));
  EXPECT_CODE(CloneFile(pool->At("source"), Names(pool->At("clone")), 10), "EOPNOTSUPP");
  EXPECT(!test::Exists(pool->At("clone.tmp")) && !test::Exists(pool->At("clone")));
  EXPECT_CODE(ProbeReflink(pool->At("nowhere")), "ENOENT");
}

}  // namespace
}  // namespace blockdelta
