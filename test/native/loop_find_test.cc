// Finding the loop device of a file among those of others.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "test/native/loop_fixture.h"
#include "test/native/status_assertions.h"

namespace blockdelta {
namespace {

// A loop device whose node in /dev is missing until a process opens it by number.
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

// Two files are attached, "other" before "volume".
class LoopFindTest : public test::AttachedLoopTest {
 protected:
  void SetUp() override {
    LoopTest::SetUp();
    if (IsSkipped()) return;
    Result<AttachedLoop> other = AttachLoop(MakeFile("other"), false, "");
    ASSERT_OK(other);
    other_ = other->device;
    test::AttachedLoopTest::SetUp();
  }

  LoopDevice other_;
};

TEST_F(LoopFindTest, FindsAFileUnderItsOwnNameWithoutOpeningOtherDevices) {
  const UnopenedLoop unopened(other_);
  std::optional<LoopDevice> found = Find(path_);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->path, device_.path);
  EXPECT_FALSE(unopened.opened());
}

TEST_F(LoopFindTest, FindsAFileThroughADescriptorWithoutOpeningOtherDevices) {
  Result<UniqueFd> directory = OpenPath(At("."), O_PATH | O_DIRECTORY);
  ASSERT_OK(directory);
  const UnopenedLoop unopened(other_);
  std::optional<LoopDevice> found =
      Find("/proc/self/fd/" + std::to_string(directory->get()) + "/volume");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->path, device_.path);
  EXPECT_FALSE(unopened.opened());
}

TEST_F(LoopFindTest, FindsAFileUnderAnotherNameByProbingEveryDevice) {
  const std::string link = At("link");
  const std::string hard_link = At("hard link");
  EXPECT_TRUE(symlink(path_.c_str(), link.c_str()) == 0 &&
              ::link(path_.c_str(), hard_link.c_str()) == 0);
  for (const std::string& name : {link, hard_link, At("./volume"), std::string()}) {
    Result<std::optional<LoopDevice>> found = FindLoop(Identity(path_), name);
    ASSERT_OK(found);
    ASSERT_TRUE(found->has_value());
    EXPECT_EQ((*found)->path, device_.path);
  }
}

TEST_F(LoopFindTest, IgnoresADeviceOfAFileHiddenUnderAMountAtTheSamePath) {
  const std::string directory = At("covered");
  EXPECT_TRUE(test::RunCommand("mkdir " + directory));
  const std::string path = MakeFile("covered/volume");
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
    EXPECT_TRUE(test::DetachWhenFree(path));
  }
  EXPECT_TRUE(test::RunCommand("umount " + directory));
  std::optional<LoopDevice> found = Find(path);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->path, below->device.path);
}

}  // namespace
}  // namespace blockdelta
