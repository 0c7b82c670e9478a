// A directory and those in it, opened once each.
#include "native/device/open_directories.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "test/native/status_assertions.h"

namespace blockdelta {
namespace {

namespace fs = std::filesystem;

// A directory with the directories `one` and `two`, gone with it.
class Root {
 public:
  Root() {
    const char* base = std::getenv("TMPDIR");
    std::string name = std::string(base == nullptr ? "/tmp" : base) + "/blockdelta-open-XXXXXX";
    path_ = mkdtemp(name.data()) == nullptr ? "" : name;
    fs::create_directories(path_ + "/one");
    fs::create_directories(path_ + "/two");
  }
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;
  ~Root() { fs::remove_all(path_); }

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

uint64_t InodeOf(const std::string& path) {
  struct stat state = {};
  return stat(path.c_str(), &state) == 0 ? state.st_ino : 0;
}

TEST(OpenDirectoriesTest, OpensTheRootFirstAndThenEachDirectoryInIt) {
  const Root root;
  Result<std::vector<OpenDirectory>> opened = OpenDirectories(root.path(), {"one", "two"});
  ASSERT_OK(opened);
  ASSERT_EQ(opened->size(), 3U);
  EXPECT_EQ((*opened)[0].inode, InodeOf(root.path()));
  EXPECT_EQ((*opened)[1].inode, InodeOf(root.path() + "/one"));
  EXPECT_EQ((*opened)[2].inode, InodeOf(root.path() + "/two"));
}

TEST(OpenDirectoriesTest, ReachesNamesInADirectoryThatHasBeenRenamed) {
  const Root root;
  Result<std::vector<OpenDirectory>> opened = OpenDirectories(root.path(), {"one"});
  ASSERT_OK(opened);
  fs::rename(root.path() + "/one", root.path() + "/moved");
  const std::string through = "/proc/self/fd/" + std::to_string((*opened)[1].fd.get());
  std::ofstream(through + "/file") << "content";
  EXPECT_TRUE(fs::exists(root.path() + "/moved/file"));
}

TEST(OpenDirectoriesTest, FollowsALinkToTheRootAndNoneInIt) {
  const Root root;
  const Root other;
  fs::create_directory_symlink(root.path(), other.path() + "/link");
  ASSERT_OK(OpenDirectories(other.path() + "/link", {"one"}));
  Result<std::vector<OpenDirectory>> opened = OpenDirectories(other.path(), {"one", "link"});
  EXPECT_CODE(opened, "ENOTDIR");
  EXPECT_EQ(opened.status().failure().path, other.path() + "/link");
}

TEST(OpenDirectoriesTest, LeavesNothingOpenWhenOneIsMissing) {
  const Root root;
  const auto descriptors = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  const auto before = descriptors();
  EXPECT_CODE(OpenDirectories(root.path(), {"one", "absent"}), "ENOENT");
  EXPECT_CODE(OpenDirectories(root.path() + "/absent", {"one"}), "ENOENT");
  EXPECT_EQ(descriptors(), before);
}

}  // namespace
}  // namespace blockdelta
