// Growing: the file, the loop device, the file system; and other changes of attached devices.
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/prctl.h>

#include "native/device/file_system_growth.h"
#include "native/device/files.h"
#include "native/device/loop_attach.h"
#include "native/device/loop_change.h"
#include "test/native/pool.h"
#include "test/native/status_assertions.h"

namespace blockdelta::test {
namespace {

constexpr uint64_t kMiB = 1 << 20;

uint64_t SizeOf(const std::string& path) { return (*StateOfFile(path))->size_bytes; }

bool MayGrowExt4() { return prctl(PR_CAPBSET_READ, CAP_SYS_RESOURCE) == 1; }

class GrowthTest : public InXfs {};

// Gives the volume's file and device a size, not its file system.
bool GrowDevice(const Volume& volume, uint64_t size_bytes) {
  const bool is_grown =
      ValueOf(GrowFile(volume.path(), size_bytes)) &&
      ValueOf(ResizeLoop(volume.path())).value_or(LoopDevice()).size_bytes == size_bytes;
  EXPECT_TRUE(is_grown);
  return is_grown;
}

TEST_F(GrowthTest, GrowsAFileWithZerosAndNeverShrinksIt) {
  const std::string path = At("volume");
  WriteBytes(path, 0, std::vector<uint8_t>(8192, 7));
  EXPECT_TRUE(ValueOf(GrowFile(path, 16384)));
  std::vector<uint8_t> expected(8192, 7);
  expected.resize(16384);
  EXPECT_EQ(ReadBytes(path), expected);
  for (const uint64_t size : {16384, 4096, 0}) EXPECT_FALSE(ValueOf(GrowFile(path, size)));
  EXPECT_EQ(SizeOf(path), 16384u);
  EXPECT_CODE(GrowFile(At("nowhere"), 16384), "ENOENT");
  EXPECT_CODE(GrowFile(path, UINT64_MAX), "EFBIG");
  EXPECT_CODE(GrowFile(pool_.mount_point(), 16384), "EISDIR");
  EXPECT_OK(SetImmutable(path, true));
  EXPECT_CODE(GrowFile(path, 32768), "EPERM");
}

TEST_F(GrowthTest, AllocatesAllBlocksOfAFileAndKeepsItsContentAndItsSizeWhereThereIsNoRoom) {
  const std::string path = MakeFile(At("metadata"), 2 * kMiB);
  WriteBytes(path, 4096, {5});
  for (const uint64_t size : {2 * kMiB, 2 * kMiB, 4 * kMiB, 3 * kMiB}) {
    EXPECT_OK(AllocateFile(path, size));
    ASSERT_VALUE(state, StateOfFile(path));
    ASSERT_TRUE(state.has_value());
    EXPECT_GE(state->size_bytes, size);
    EXPECT_GE(state->allocated_bytes, state->size_bytes);
  }
  EXPECT_EQ(SizeOf(path), 4 * kMiB);
  std::vector<uint8_t> expected(4 * kMiB);
  expected[4096] = 5;
  EXPECT_EQ(ReadBytes(path), expected);
  EXPECT_CODE(AllocateFile(path, uint64_t{1} << 40), "ENOSPC");
  EXPECT_EQ(SizeOf(path), 4 * kMiB);
  EXPECT_CODE(AllocateFile(At("nowhere"), kMiB), "ENOENT");
  EXPECT_CODE(AllocateFile(path, UINT64_MAX), "EFBIG");
  EXPECT_CODE(AllocateFile(path, 0), "EINVAL");
}

TEST_F(GrowthTest, ResizesTheLoopDeviceOfAFileAndKeepsWhatWasWritten) {
  const std::string plain = MakeFile(At("plain"), kMiB);
  for (const std::string& name : {plain, At("nowhere"), plain + "/below"}) {
    EXPECT_FALSE(ValueOf(ResizeLoop(name)).has_value());
  }
  Volume* const volume = Make("volume", "", 4 * kMiB);
  WriteBytes(volume->loop(), 0, {5});
  if (!GrowDevice(*volume, 8 * kMiB + 4096)) return;
  WriteBytes(volume->loop(), 8 * kMiB, {6});
  // Again: nothing changes.
  EXPECT_EQ(ValueOf(ResizeLoop(volume->path())).value_or(LoopDevice()).path, volume->loop());
  EXPECT_OK(DetachLoop(volume->path()));
  const std::vector<uint8_t> bytes = ReadBytes(volume->path());
  EXPECT_TRUE(bytes[0] == 5 && bytes[8 * kMiB] == 6);
}

TEST_F(GrowthTest, SwitchesDirectIoOnAnAttachedDeviceOnly) {
  Volume* const volume = Make("volume", "", 4 * kMiB);
  for (const bool direct_io : {false, false, true, true}) {
    EXPECT_OK(SetLoopDirectIo(volume->loop(), direct_io));
    ASSERT_VALUE(found, AttachLoop(volume->path(), false, ""));
    EXPECT_EQ(found.device.direct_io, direct_io);
  }
  EXPECT_OK(DetachLoop(volume->path()));
  EXPECT_CODE(SetLoopDirectIo(volume->loop(), false), "ENXIO");
  EXPECT_CODE(SetLoopDirectIo(volume->path(), false), "ENOTTY");
}

// Grows a mounted file system that holds something.
struct GrowthCase {
  const char* name;
  FileSystemKind kind;
  const char* check;
};

class FileSystemGrowthTest : public InXfs, public testing::WithParamInterface<GrowthCase> {};
INSTANTIATE_TEST_SUITE_P(, FileSystemGrowthTest,
                         testing::Values(GrowthCase{"xfs", FileSystemKind::kXfs, "xfs_repair -n"},
                                         GrowthCase{"btrfs", FileSystemKind::kBtrfs, "btrfs check"},
                                         GrowthCase{"ext4", FileSystemKind::kExt4, "e2fsck -fn"}),
                         NameOf<GrowthCase>);

TEST_P(FileSystemGrowthTest, GrowsToItsDevice) {
  if (GetParam().kind == FileSystemKind::kExt4 && !MayGrowExt4()) {
    GTEST_SKIP() << "needs CAP_SYS_RESOURCE";
  }
  Volume* const volume = Make("volume", GetParam().name, 320 * kMiB);
  WriteBytes(volume->mount_point() + "/file", 0, std::vector<uint8_t>(kMiB, 3));
  const auto grow = [&] {
    const Growth growth = ValueOf(GrowFileSystem(volume->mount_point(), volume->loop()));
    EXPECT_EQ(growth.kind, GetParam().kind);
    return growth;
  };
  const Growth none = grow();
  EXPECT_EQ(none.before_bytes, none.after_bytes);
  if (!GrowDevice(*volume, 1024 * kMiB)) return;
  const Growth first = grow();
  EXPECT_EQ(first.before_bytes, none.after_bytes);
  EXPECT_TRUE(first.after_bytes > 900 * kMiB && first.after_bytes <= 1024 * kMiB);
  const Growth again = grow();
  EXPECT_TRUE(again.before_bytes == first.after_bytes && again.after_bytes == first.after_bytes);
  EXPECT_EQ(ReadBytes(volume->mount_point() + "/file"), std::vector<uint8_t>(kMiB, 3));
  EXPECT_TRUE(volume->Unmount());
  EXPECT_TRUE(RunCommand(std::string(GetParam().check) + " " + volume->loop()));
}

TEST_F(GrowthTest, NamesAMissingCapabilityUnlessThereIsNothingToGrow) {
  if (MayGrowExt4()) GTEST_SKIP() << "has CAP_SYS_RESOURCE";
  Volume* const volume = Make("volume", "ext4", 64 * kMiB);
  EXPECT_OK(GrowFileSystem(volume->mount_point(), volume->loop()));
  if (!GrowDevice(*volume, 128 * kMiB)) return;
  Result<Growth> growth = GrowFileSystem(volume->mount_point(), volume->loop());
  EXPECT_CODE(growth, "EPERM");
  EXPECT_EQ(growth.status().failure().syscall, std::string("EXT4_IOC_RESIZE_FS"));
  EXPECT_NE(growth.status().failure().Message().find("CAP_SYS_RESOURCE"), std::string::npos);
}

TEST_F(GrowthTest, FindsNothingToGrowInANewExt4OfAnySize) {
  // About the ends of its groups of 8 and 128 MiB, where a last group may be left out.
  for (const uint64_t mib : {16, 33, 66, 128, 129, 131, 136, 257, 262, 300}) {
    // Gone before the next one: nothing else that mounts meanwhile is to hold them all.
    const Volume volume(pool_, "volume-" + std::to_string(mib), "ext4", mib * kMiB);
    ASSERT_VALUE(growth, GrowFileSystem(volume.mount_point(), volume.loop()));
    EXPECT_EQ(growth.before_bytes, growth.after_bytes);
  }
}

TEST_F(GrowthTest, GrowsAFileSystemOnlyToTheDeviceItIsMountedFrom) {
  Volume* const first = Make("first", "ext4", 64 * kMiB);
  Volume* const second = Make("second", "btrfs", 128 * kMiB);
  EXPECT_CODE(GrowFileSystem(first->mount_point(), second->loop()), "ESTALE");
  EXPECT_CODE(GrowFileSystem(second->mount_point(), first->loop()), "ESTALE");
  EXPECT_CODE(GrowFileSystem(first->mount_point(), first->path()), "ENOTBLK");
  EXPECT_OK(GrowFileSystem(second->mount_point(), second->loop()));
  const std::string mount = first->mount_point();
  EXPECT_TRUE(first->Unmount());
  EXPECT_CODE(GrowFileSystem(mount, first->loop()), "ESTALE");
}

}  // namespace
}  // namespace blockdelta::test
