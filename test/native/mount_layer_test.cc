// Single mounts on real file systems: bound, changed and unmounted by their ids, and found in
// mountinfo.
#include "native/device/mount_layer.h"

#include <gtest/gtest.h>
#include <linux/mount.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>

#include "native/device/anchored_path.h"
#include "native/device/mount_point.h"
#include "test/native/pool.h"
#include "test/native/status_assertions.h"

namespace blockdelta::test {
namespace {

namespace fs = std::filesystem;

constexpr MountAttributes kNoChange = {0, 0};
constexpr MountAttributes kReadOnly = {MOUNT_ATTR_RDONLY, 0};
constexpr MountAttributes kWritable = {0, MOUNT_ATTR_RDONLY};
constexpr uint64_t kNoMount = 999999999;

uint64_t TopOf(const std::string& path) {
  Result<AnchoredPath> place = AnchoredPath::Open(path);
  EXPECT_OK(place);
  return place.ok() ? ValueOf(place->TopMountId()) : 0;
}

bool IsReadOnly(const std::string& path) {
  struct statvfs state;
  EXPECT_EQ(statvfs(path.c_str(), &state), 0) << path;
  return (state.f_flag & ST_RDONLY) != 0;
}

// With a mounted file system that has the directory `inside`, and the directory At("target").
class MountLayerTest : public InPool {
 protected:
  MountLayerTest() : InPool("ext4") {
    fs::create_directory(pool_.At("inside"));
    fs::create_directory(target_);
  }
  // Ends every layer that a failed test left on the target.
  ~MountLayerTest() override {
    while (RunCommand("umount '" + target_ + "'")) continue;
  }

  BindSource Source() const {
    return {pool_.mount_point(), TopOf(pool_.mount_point()), std::nullopt};
  }
  Status Bind() const { return BindMount(Source(), target_, kNoChange); }

  const TempDirectory directory_;
  const std::string target_ = directory_.At("target");
};

TEST_F(MountLayerTest, BindsAMountedFileSystemWithItsAttributesAndUnmountsThatLayer) {
  ASSERT_OK(BindMount(Source(), target_, kReadOnly));
  EXPECT_TRUE(Exists(target_ + "/inside"));
  EXPECT_TRUE(IsReadOnly(target_));
  EXPECT_FALSE(IsReadOnly(pool_.mount_point()));
  EXPECT_TRUE(ValueOf(UnmountLayer(target_, TopOf(target_))));
  EXPECT_FALSE(Exists(target_ + "/inside"));
  EXPECT_TRUE(Exists(pool_.At("inside")));
}

TEST_F(MountLayerTest, BindsNothingOnAMountPointAndNothingOfAnotherIdentity) {
  BindSource other = Source();
  other.mount_id = kNoMount;
  EXPECT_CODE(BindMount(other, target_, kNoChange), "ESTALE");
  other = {"/dev/null", std::nullopt, makedev(1, 3)};
  EXPECT_CODE(BindMount(other, target_, kNoChange), "ESTALE");
  EXPECT_CODE(BindMount({target_ + "/absent", {}, {}}, target_, kNoChange), "ENOENT");
  EXPECT_CODE(BindMount(Source(), target_ + "/absent", kNoChange), "ENOENT");
  EXPECT_EQ(TopOf(target_), TopOf(directory_.At(".")));

  ASSERT_OK(Bind());
  const uint64_t first = TopOf(target_);
  EXPECT_CODE(Bind(), "EBUSY");
  EXPECT_EQ(TopOf(target_), first);
}

TEST_F(MountLayerTest, BindsADeviceNodeWithTheNumberThatWasFoundBefore) {
  Volume* volume = Make("volume", "", 16 << 20);
  const dev_t device = StateOf(volume->loop()).st_rdev;
  const std::string node = directory_.At("node");
  std::ofstream(node) << "";
  EXPECT_CODE(BindMount({volume->loop(), {}, device + 1}, node, kNoChange), "ESTALE");
  ASSERT_OK(BindMount({volume->loop(), {}, device}, node, kNoChange));
  EXPECT_EQ(StateOf(node).st_rdev, device);
  EXPECT_TRUE(ValueOf(UnmountLayer(node, TopOf(node))));
  EXPECT_TRUE(S_ISREG(StateOf(node).st_mode));
}

TEST_F(MountLayerTest, UnmountsNothingThatAnotherLayerCovers) {
  ASSERT_OK(Bind());
  const uint64_t below = TopOf(target_);
  ASSERT_TRUE(RunCommand("mount --bind '" + pool_.At("inside") + "' '" + target_ + "'"));
  const uint64_t above = TopOf(target_);
  EXPECT_CODE(UnmountLayer(target_, below), "ESTALE");
  EXPECT_EQ(TopOf(target_), above);
  EXPECT_TRUE(ValueOf(UnmountLayer(target_, above)));
  EXPECT_TRUE(ValueOf(UnmountLayer(target_, below)));
}

TEST_F(MountLayerTest, UnmountsNothingThatIsInUseOrHasAMountInside) {
  ASSERT_OK(Bind());
  const uint64_t layer = TopOf(target_);
  {
    const UniqueFd user = Open(target_ + "/inside", O_RDONLY);
    EXPECT_CODE(UnmountLayer(target_, layer), "EBUSY");
  }
  const std::string deeper = target_ + "/inside";
  ASSERT_OK(BindMount(Source(), deeper, kNoChange));
  EXPECT_CODE(UnmountLayer(target_, layer), "EBUSY");
  EXPECT_TRUE(ValueOf(UnmountLayer(deeper, TopOf(deeper))));
  EXPECT_TRUE(ValueOf(UnmountLayer(target_, layer)));
}

TEST_F(MountLayerTest, ChangesTheAttributesOfNoOtherMount) {
  ASSERT_OK(Bind());
  EXPECT_CODE(SetMountAttributes(target_, kNoMount, kReadOnly), "ESTALE");
  EXPECT_FALSE(IsReadOnly(target_));
  ASSERT_OK(SetMountAttributes(target_, TopOf(target_), kReadOnly));
  EXPECT_TRUE(IsReadOnly(target_));
  EXPECT_FALSE(IsReadOnly(pool_.mount_point()));
  ASSERT_OK(SetMountAttributes(target_, TopOf(target_), kWritable));
  EXPECT_FALSE(IsReadOnly(target_));
}

TEST(MountLayerOfNothingTest, UnmountsNothingElseInPlaceOfWhatIsNotMounted) {
  const TempDirectory directory;
  fs::create_directory(directory.At("plain"));
  EXPECT_CODE(UnmountLayer(directory.At("plain"), kNoMount), "ESTALE");
  EXPECT_FALSE(ValueOf(UnmountLayer(directory.At("absent"), 1)));
  EXPECT_FALSE(ValueOf(UnmountLayer(directory.At("absent/deeper"), 1)));
}

TEST(MountPointTest, FindsALayerOnTopIfNoOtherIsMountedOnItsRoot) {
  constexpr char kText[] =
      "22 1 254:0 / / rw - ext4 /dev/vda rw\n"
      "40 22 7:1 / /mnt/a\\040b rw - ext4 /dev/loop1 rw\n"
      "41 40 0:50 / /mnt/a\\040b rw - tmpfs tmpfs rw\n"
      "42 41 0:51 / /mnt/a\\040b/deeper rw - tmpfs tmpfs rw\n"
      "4 22 0:52 / /mnt/c rw - tmpfs tmpfs rw\n";
  EXPECT_FALSE(IsTopLayer(kText, 40));
  EXPECT_TRUE(IsTopLayer(kText, 41));
  EXPECT_TRUE(IsTopLayer(kText, 42));
  EXPECT_TRUE(IsTopLayer(kText, 4));
  EXPECT_TRUE(IsTopLayer(kText, 22));
  EXPECT_FALSE(IsTopLayer(kText, 43));
  EXPECT_FALSE(IsTopLayer("", 40));
}

TEST(MountPointTest, FindsTheFirstMountPointOfADeviceWithItsNameAsItIs) {
  constexpr char kText[] =
      "22 1 254:0 / / rw - ext4 /dev/vda rw\n"
      "40 22 7:1 / /mnt/a\\040b\\134\\x rw - ext4 /dev/loop1 rw\n"
      "41 22 7:1 / /mnt/second rw - ext4 /dev/loop1 rw\n"
      "42 22 7:11 /";
  EXPECT_EQ(MountPointOf(kText, makedev(7, 1)), "/mnt/a b\\\\x");
  EXPECT_EQ(MountPointOf(kText, makedev(254, 0)), "/");
  EXPECT_EQ(MountPointOf(kText, makedev(7, 11)), std::nullopt);
  EXPECT_EQ(MountPointOf(kText, makedev(7, 2)), std::nullopt);
  EXPECT_EQ(MountPointOf("", makedev(7, 1)), std::nullopt);
}

// Bytes of the device's file system, or of the raw device, that are not yet on the image's storage.
TEST_F(MountLayerTest, WritesBackTheFileSystemOfADeviceOrTheRawDevice) {
  for (const bool raw : {false, true}) {
    Volume* volume = Make(raw ? "raw" : "mounted", raw ? "" : "ext4", 32 << 20);
    const std::vector<uint8_t> bytes(1 << 20, 0x5a);
    WriteBytes(raw ? volume->loop() : MakeFile(volume->mount_point() + "/file", bytes.size()), 0,
               bytes);
    const dev_t device = StateOf(volume->loop()).st_rdev;
    ASSERT_OK(WriteBack(volume->loop(), device));
    const std::vector<uint8_t> image = ReadBytes(volume->path());
    EXPECT_NE(std::search(image.begin(), image.end(), bytes.begin(), bytes.end()), image.end())
        << (raw ? "raw" : "mounted");
  }
  EXPECT_CODE(WriteBack(directory_.At("absent"), makedev(7, 4095)), "ENOENT");
}

}  // namespace
}  // namespace blockdelta::test
