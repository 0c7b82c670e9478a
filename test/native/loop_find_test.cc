// Finding the loop device of a file among those of others.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "test/native/loop_bench.h"
#include "test/native/status_assertions.h"

namespace blockdelta {
namespace {

// A loop device whose node in /dev is missing until somebody opens it by number.
class UnopenedLoop {
 public:
  explicit UnopenedLoop(const LoopDevice& device) : device_(device) {
    EXPECT_EQ(unlink(device_.path.c_str()), 0);
  }
  ~UnopenedLoop() { EXPECT_OK(OpenLoop(device_.number, O_RDONLY)); }
  bool opened() const { return access(device_.path.c_str(), F_OK) == 0; }

 private:
  LoopDevice device_;
};

TEST(LoopFindTest, FindsAFileUnderItsOwnNameWithoutOpeningOtherDevices) {
  Bench bench;
  if (!bench.ready()) return;
  Result<AttachedLoop> other = AttachLoop(bench.MakeFile("other"), false, "");
  const std::string path = bench.MakeFile("volume");
  Result<AttachedLoop> attached = AttachLoop(path, false, "");
  ASSERT_OK(other);
  ASSERT_OK(attached);
  const UnopenedLoop unopened(other->device);
  std::optional<LoopDevice> found = Find(path);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->path, attached->device.path);
  EXPECT_FALSE(unopened.opened());
}

TEST(LoopFindTest, FindsAFileThroughADescriptorWithoutOpeningOtherDevices) {
  Bench bench;
  if (!bench.ready()) return;
  Result<AttachedLoop> other = AttachLoop(bench.MakeFile("other"), false, "");
  const std::string path = bench.MakeFile("volume");
  Result<AttachedLoop> attached = AttachLoop(path, false, "");
  Result<UniqueFd> directory = OpenPath(bench.At("."), O_PATH | O_DIRECTORY);
  ASSERT_OK(other);
  ASSERT_OK(attached);
  ASSERT_OK(directory);
  const UnopenedLoop unopened(other->device);
  std::optional<LoopDevice> found =
      Find("/proc/self/fd/" + std::to_string(directory->get()) + "/volume");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->path, attached->device.path);
  EXPECT_FALSE(unopened.opened());
}

TEST(LoopFindTest, FindsAFileUnderAnotherNameByProbingEveryDevice) {
  Bench bench;
  if (!bench.ready()) return;
  const std::string path = bench.MakeFile("volume");
  Result<AttachedLoop> attached = AttachLoop(path, false, "");
  ASSERT_OK(attached);
  const std::string link = bench.At("link");
  const std::string hard_link = bench.At("hard link");
  EXPECT_TRUE(symlink(path.c_str(), link.c_str()) == 0 &&
              ::link(path.c_str(), hard_link.c_str()) == 0);
  for (const std::string& name : {link, hard_link, bench.At("./volume"), std::string()}) {
    Result<std::optional<LoopDevice>> found = FindLoop(Identity(path), name);
    ASSERT_OK(found);
    ASSERT_TRUE(found->has_value());
    EXPECT_EQ((*found)->path, attached->device.path);
  }
}

TEST(LoopFindTest, IgnoresADeviceOfAFileHiddenUnderAMountAtTheSamePath) {
  Bench bench;
  if (!bench.ready()) return;
  const std::string directory = bench.At("covered");
  EXPECT_TRUE(test::RunCommand("mkdir " + directory));
  const std::string path = bench.MakeFile("covered/volume");
  Result<AttachedLoop> below = AttachLoop(path, false, "");
  ASSERT_OK(below);
  ASSERT_TRUE(test::RunCommand("mount -t tmpfs tmpfs " + directory));
  EXPECT_OK(CreateSparseFile({path + ".tmp", path}, kSize));
  EXPECT_FALSE(Find(path).has_value());
  Result<AttachedLoop> above = AttachLoop(path, false, "");
  EXPECT_OK(above);
  if (above.ok()) {
    EXPECT_TRUE(above->created);
    std::optional<LoopDevice> found = Find(path);
    EXPECT_TRUE(found.has_value());
    if (found.has_value()) {
      EXPECT_EQ(found->path, above->device.path);
    }
    EXPECT_TRUE(Detaches(path));
  }
  EXPECT_TRUE(test::RunCommand("umount " + directory));
  std::optional<LoopDevice> found = Find(path);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->path, below->device.path);
}

}  // namespace
}  // namespace blockdelta
