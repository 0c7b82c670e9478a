// Places held by the descriptor of their directory, and which layer of a path is on top.
#include "native/device/anchored_path.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "native/device/mount_layer.h"
#include "native/device/mount_point.h"
#include "test/native/status_assertions.h"

namespace blockdelta {
namespace {

namespace fs = std::filesystem;

// A directory that is gone with it.
class Scratch {
 public:
  Scratch() {
    const char* base = std::getenv("TMPDIR");
    std::string name = std::string(base == nullptr ? "/tmp" : base) + "/blockdelta-place-XXXXXX";
    path_ = mkdtemp(name.data()) == nullptr ? "" : fs::canonical(name).string();
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { fs::remove_all(path_); }

  std::string At(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

TEST(PathDescriptorTest, MakesAPlaceOnceAndRemovesItOnceAndOnlyIfEmpty) {
  const Scratch scratch;
  for (const bool directory : {true, false}) {
    Result<AnchoredPath> place = AnchoredPath::Open(scratch.At("place"));
    ASSERT_OK(place);
    Result<bool> done = place->Make(directory);
    ASSERT_OK(done);
    EXPECT_TRUE(*done);
    done = place->Make(directory);
    ASSERT_OK(done);
    EXPECT_FALSE(*done);
    done = place->IsMountPoint();
    ASSERT_OK(done);
    EXPECT_FALSE(*done);
    const std::string inside = scratch.At(directory ? "place/file" : "place");
    std::ofstream(inside) << "content";
    EXPECT_CODE(place->Remove(), "ENOTEMPTY");
    fs::resize_file(inside, 0);
    if (directory) fs::remove(inside);
    done = place->Remove();
    ASSERT_OK(done);
    EXPECT_TRUE(*done);
    done = place->Remove();
    ASSERT_OK(done);
    EXPECT_FALSE(*done);
  }
}

TEST(PathDescriptorTest, RefusesASymbolicLinkInAPathAndKeepsOneAtItsEnd) {
  const Scratch scratch;
  fs::create_directories(scratch.At("real/inside"));
  fs::create_directory_symlink(scratch.At("real"), scratch.At("link"));
  EXPECT_CODE(AnchoredPath::Open(scratch.At("link/inside")), "ELOOP");
  EXPECT_CODE(OpenResolved(scratch.At("link"), O_PATH), "ELOOP");
  EXPECT_CODE(AnchoredPath::Open(scratch.At("absent/inside")), "ENOENT");
  EXPECT_CODE(AnchoredPath::Open("relative"), "EINVAL");
  Result<AnchoredPath> place = AnchoredPath::Open(scratch.At("link"));
  ASSERT_OK(place);
  EXPECT_CODE(place->Remove(), "ENOTEMPTY");
  EXPECT_TRUE(fs::exists(scratch.At("real/inside")));
}

TEST(PathDescriptorTest, ActsInTheDirectoryOfAHeldPlaceWhereverItWasMoved) {
  const Scratch scratch;
  fs::create_directories(scratch.At("parent/place"));
  Result<AnchoredPath> place = AnchoredPath::Open(scratch.At("parent/place"));
  ASSERT_OK(place);
  fs::rename(scratch.At("parent"), scratch.At("moved"));
  fs::create_directories(scratch.At("other/place"));
  fs::create_directory_symlink(scratch.At("other"), scratch.At("parent"));
  Result<bool> removed = place->Remove();
  ASSERT_OK(removed);
  EXPECT_TRUE(*removed);
  EXPECT_FALSE(fs::exists(scratch.At("moved/place")));
  EXPECT_TRUE(fs::exists(scratch.At("other/place")));
}

TEST(PathDescriptorTest, UnmountsNothingElseInPlaceOfWhatIsNotMounted) {
  const Scratch scratch;
  fs::create_directory(scratch.At("plain"));
  EXPECT_CODE(UnmountLayer(scratch.At("plain"), 999999999), "ESTALE");
  Result<bool> absent = UnmountLayer(scratch.At("absent"), 1);
  ASSERT_OK(absent);
  EXPECT_FALSE(*absent);
  absent = UnmountLayer(scratch.At("absent/deeper"), 1);
  ASSERT_OK(absent);
  EXPECT_FALSE(*absent);
}

TEST(PathDescriptorTest, FindsALayerOnTopIfNoOtherIsMountedOnItsRoot) {
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

}  // namespace
}  // namespace blockdelta
