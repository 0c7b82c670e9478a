// Finding the loop device of a file among those of others.
#include <fcntl.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "test/native/harness.h"
#include "test/native/loop_bench.h"

namespace blockdelta {
namespace {

// A loop device whose node in /dev is missing until somebody opens it by number.
class UnopenedLoop {
 public:
  explicit UnopenedLoop(const LoopDevice& device) : device_(device) {
    EXPECT(unlink(device_.path.c_str()) == 0);
  }
  ~UnopenedLoop() { EXPECT_OK(OpenLoop(device_.number, O_RDONLY)); }
  bool opened() const { return access(device_.path.c_str(), F_OK) == 0; }

 private:
  LoopDevice device_;
};

TEST("a file under its own name is found without opening the devices of others") {
  Bench bench;
  if (!bench.ready()) return;
  Result<AttachedLoop> other = AttachLoop(bench.MakeFile("other"), false, "");
  const std::string path = bench.MakeFile("volume");
  Result<AttachedLoop> attached = AttachLoop(path, false, "");
  if (!EXPECT_OK(other) || !EXPECT_OK(attached)) return;
  const UnopenedLoop unopened(other->device);
  std::optional<LoopDevice> found = Find(path);
  if (EXPECT(found.has_value())) EXPECT_EQ(found->path, attached->device.path);
  EXPECT(!unopened.opened());
}

TEST("a file that is reached through a descriptor is found without opening the devices of others") {
  Bench bench;
  if (!bench.ready()) return;
  Result<AttachedLoop> other = AttachLoop(bench.MakeFile("other"), false, "");
  const std::string path = bench.MakeFile("volume");
  Result<AttachedLoop> attached = AttachLoop(path, false, "");
  Result<UniqueFd> directory = OpenPath(bench.At("."), O_PATH | O_DIRECTORY);
  if (!EXPECT_OK(other) || !EXPECT_OK(attached) || !EXPECT_OK(directory)) return;
  const UnopenedLoop unopened(other->device);
  std::optional<LoopDevice> found =
      Find("/proc/self/fd/" + std::to_string(directory->get()) + "/volume");
  if (EXPECT(found.has_value())) EXPECT_EQ(found->path, attached->device.path);
  EXPECT(!unopened.opened());
}

TEST("a file that is reached by another name is found by looking at every device") {
  Bench bench;
  if (!bench.ready()) return;
  const std::string path = bench.MakeFile("volume");
  Result<AttachedLoop> attached = AttachLoop(path, false, "");
  if (!EXPECT_OK(attached)) return;
  const std::string link = bench.At("link");
  const std::string hard_link = bench.At("hard link");
  EXPECT(symlink(path.c_str(), link.c_str()) == 0 && ::link(path.c_str(), hard_link.c_str()) == 0);
  for (const std::string& name : {link, hard_link, bench.At("./volume"), std::string()}) {
    Result<std::optional<LoopDevice>> found = FindLoop(Identity(path), name);
    if (EXPECT_OK(found) && EXPECT(found->has_value())) {
      EXPECT_EQ((*found)->path, attached->device.path);
    }
  }
}

TEST("a device that names the same path, of a file under a mount, is not taken") {
  Bench bench;
  if (!bench.ready()) return;
  const std::string directory = bench.At("covered");
  EXPECT(test::RunCommand("mkdir " + directory));
  const std::string path = bench.MakeFile("covered/volume");
  Result<AttachedLoop> below = AttachLoop(path, false, "");
  if (!EXPECT_OK(below)) return;
  if (!EXPECT(test::RunCommand("mount -t tmpfs tmpfs " + directory))) return;
  EXPECT_OK(CreateSparseFile({path + ".tmp", path}, kSize));
  EXPECT(!Find(path).has_value());
  Result<AttachedLoop> above = AttachLoop(path, false, "");
  if (EXPECT_OK(above)) {
    EXPECT(above->created);
    std::optional<LoopDevice> found = Find(path);
    if (EXPECT(found.has_value())) EXPECT_EQ(found->path, above->device.path);
    EXPECT(Detaches(path));
  }
  EXPECT(test::RunCommand("umount " + directory));
  std::optional<LoopDevice> found = Find(path);
  if (EXPECT(found.has_value())) EXPECT_EQ(found->path, below->device.path);
}

}  // namespace
}  // namespace blockdelta
