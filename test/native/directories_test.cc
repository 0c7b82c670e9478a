// Directories and places in them: held by descriptors, and listed.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "native/device/anchored_path.h"
#include "native/device/directory_list.h"
#include "native/device/open_directories.h"
#include "test/native/pool.h"
#include "test/native/status_assertions.h"

namespace blockdelta::test {
namespace {

namespace fs = std::filesystem;

// "yes", "no" or the code of a failure.
std::string Answer(const Result<bool>& result) {
  return result.ok() ? (*result ? "yes" : "no") : CodeOf(result);
}

class AnchoredPathTest : public InDirectory {};
class DirectoryListTest : public InDirectory {};

TEST_F(AnchoredPathTest, MakesAPlaceOnceAndRemovesItOnceAndOnlyIfEmpty) {
  for (const bool directory : {true, false}) {
    ASSERT_VALUE(place, AnchoredPath::Open(At("place")));
    EXPECT_EQ(Answer(place.Make(directory)), "yes");
    EXPECT_EQ(Answer(place.Make(directory)), "no");
    EXPECT_EQ(Answer(place.IsMountPoint()), "no");
    const std::string inside = At(directory ? "place/file" : "place");
    std::ofstream(inside) << "content";
    EXPECT_CODE(place.Remove(), "ENOTEMPTY");
    fs::resize_file(inside, 0);
    if (directory) fs::remove(inside);
    EXPECT_EQ(Answer(place.Remove()), "yes");
    EXPECT_EQ(Answer(place.Remove()), "no");
  }
}

TEST_F(AnchoredPathTest, RefusesASymbolicLinkInAPathAndKeepsOneAtItsEnd) {
  fs::create_directories(At("real/inside"));
  fs::create_directory_symlink(At("real"), At("link"));
  EXPECT_CODE(AnchoredPath::Open(At("link/inside")), "ELOOP");
  EXPECT_CODE(OpenResolved(At("link"), O_PATH), "ELOOP");
  EXPECT_CODE(AnchoredPath::Open(At("absent/inside")), "ENOENT");
  EXPECT_CODE(AnchoredPath::Open("relative"), "EINVAL");
  ASSERT_VALUE(place, AnchoredPath::Open(At("link")));
  EXPECT_CODE(place.Remove(), "ENOTEMPTY");
  EXPECT_TRUE(fs::exists(At("real/inside")));
}

TEST_F(AnchoredPathTest, ActsInTheDirectoryOfAHeldPlaceWhereverItWasMoved) {
  fs::create_directories(At("parent/place"));
  ASSERT_VALUE(place, AnchoredPath::Open(At("parent/place")));
  fs::rename(At("parent"), At("moved"));
  fs::create_directories(At("other/place"));
  fs::create_directory_symlink(At("other"), At("parent"));
  EXPECT_EQ(Answer(place.Remove()), "yes");
  EXPECT_FALSE(fs::exists(At("moved/place")));
  EXPECT_TRUE(fs::exists(At("other/place")));
}

// With the directories `one` and `two`.
struct Root : TempDirectory {
  Root() {
    fs::create_directory(At("one"));
    fs::create_directory(At("two"));
  }
};

TEST(OpenDirectoriesTest, OpensTheRootFirstAndThenEachDirectoryInIt) {
  const Root root;
  ASSERT_VALUE(opened, OpenDirectories(root.At("."), {"one", "two"}));
  ASSERT_EQ(opened.size(), 3U);
  EXPECT_EQ(opened[0].inode, StateOf(root.At(".")).st_ino);
  EXPECT_EQ(opened[1].inode, StateOf(root.At("one")).st_ino);
  EXPECT_EQ(opened[2].inode, StateOf(root.At("two")).st_ino);
  // Names in it are reached wherever it was moved.
  fs::rename(root.At("one"), root.At("moved"));
  const std::string through = "/proc/self/fd/" + std::to_string(opened[1].fd.get());
  std::ofstream(through + "/file") << "content";
  EXPECT_TRUE(fs::exists(root.At("moved/file")));
}

TEST(OpenDirectoriesTest, FollowsALinkToTheRootAndNoneInIt) {
  const Root root;
  const Root other;
  fs::create_directory_symlink(root.At("."), other.At("link"));
  ASSERT_OK(OpenDirectories(other.At("link"), {"one"}));
  Result<std::vector<OpenDirectory>> opened = OpenDirectories(other.At("."), {"one", "link"});
  EXPECT_CODE(opened, "ENOTDIR");
  EXPECT_EQ(opened.status().failure().path, other.At("./link"));
}

TEST(OpenDirectoriesTest, LeavesNothingOpenWhenOneIsMissing) {
  const Root root;
  const auto descriptors = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  const auto before = descriptors();
  EXPECT_CODE(OpenDirectories(root.At("."), {"one", "absent"}), "ENOENT");
  EXPECT_CODE(OpenDirectories(root.At("absent"), {"one"}), "ENOENT");
  EXPECT_EQ(descriptors(), before);
}

TEST_F(DirectoryListTest, ReportsSizesAllocationAndKindsAsStatDoes) {
  WriteBytes(At("written"), 0, std::vector<uint8_t>(100000, 7));
  WriteBytes(At("sparse"), 0, {1});
  ASSERT_EQ(truncate(At("sparse").c_str(), 1LL << 40), 0);
  ASSERT_EQ(mkdir(At("directory").c_str(), 0700), 0);
  // A link is not followed: it could name any file of the host.
  ASSERT_EQ(symlink(At("written").c_str(), At("link").c_str()), 0);
  ASSERT_EQ(symlink("nowhere", At("dangling").c_str()), 0);
  ASSERT_VALUE(files, ListDirectory(At("."), true));
  std::map<std::string, ListedFile> by_name;
  for (const ListedFile& file : files) by_name[file.name] = file;
  ASSERT_EQ(by_name.size(), 5u);
  for (const char* name : {"written", "sparse"}) {
    const struct stat state = StateOf(At(name));
    EXPECT_TRUE(by_name[name].regular);
    EXPECT_EQ(by_name[name].size_bytes, static_cast<uint64_t>(state.st_size));
    EXPECT_EQ(by_name[name].allocated_bytes, static_cast<uint64_t>(state.st_blocks) * 512);
  }
  for (const char* name : {"directory", "link", "dangling"}) EXPECT_FALSE(by_name[name].regular);
  ASSERT_VALUE(without_sizes, ListDirectory(At("."), false));
  ASSERT_EQ(without_sizes.size(), 5u);
  for (const ListedFile& file : without_sizes) {
    EXPECT_EQ(file.regular, by_name.at(file.name).regular);
  }
}

TEST_F(DirectoryListTest, ListsManyFilesOnceEachAndNamesWhatIsNoDirectory) {
  std::set<std::string> expected;
  for (int i = 0; i < 3000; i++) expected.insert(std::to_string(i));
  for (const std::string& name : expected) WriteBytes(At(name), 0, {1});
  ASSERT_VALUE(files, ListDirectory(At("."), true));
  std::set<std::string> seen;
  for (const ListedFile& file : files) seen.insert(file.name);
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(files.size(), expected.size());
  EXPECT_CODE(ListDirectory(At("missing"), true), "ENOENT");
  EXPECT_CODE(ListDirectory(At("7"), false), "ENOTDIR");
}

}  // namespace
}  // namespace blockdelta::test
