// Listing a directory together with what stat says of its files.
#include "native/device/directory_list.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>

#include "test/native/pool.h"
#include "test/native/status_assertions.h"

namespace blockdelta {
namespace {

TEST(DirectoryListTest, ReportsSizesAllocationAndKindsAsStatDoes) {
  const test::TempDirectory directory;
  test::WriteBytes(directory.At("written"), 0, std::vector<uint8_t>(100000, 7));
  test::WriteBytes(directory.At("sparse"), 0, {1});
  ASSERT_EQ(truncate(directory.At("sparse").c_str(), 1LL << 40), 0);
  ASSERT_EQ(mkdir(directory.At("directory").c_str(), 0700), 0);
  // A link is not followed: it could name any file of the host.
  ASSERT_EQ(symlink(directory.At("written").c_str(), directory.At("link").c_str()), 0);
  ASSERT_EQ(symlink("nowhere", directory.At("dangling").c_str()), 0);
  Result<std::vector<ListedFile>> files = ListDirectory(directory.At("."));
  ASSERT_OK(files);
  std::map<std::string, ListedFile> by_name;
  for (const ListedFile& file : *files) by_name[file.name] = file;
  ASSERT_EQ(by_name.size(), 5u);
  for (const char* name : {"written", "sparse"}) {
    struct stat state = {};
    ASSERT_EQ(stat(directory.At(name).c_str(), &state), 0);
    EXPECT_TRUE(by_name[name].regular);
    EXPECT_EQ(by_name[name].size_bytes, static_cast<uint64_t>(state.st_size));
    EXPECT_EQ(by_name[name].allocated_bytes, static_cast<uint64_t>(state.st_blocks) * 512);
  }
  for (const char* name : {"directory", "link", "dangling"}) EXPECT_FALSE(by_name[name].regular);
}

TEST(DirectoryListTest, ListsManyFilesOnceEach) {
  const test::TempDirectory directory;
  constexpr int kFiles = 3000;
  for (int i = 0; i < kFiles; i++) test::WriteBytes(directory.At(std::to_string(i)), 0, {1});
  Result<std::vector<ListedFile>> files = ListDirectory(directory.At("."));
  ASSERT_OK(files);
  std::map<std::string, int> seen;
  for (const ListedFile& file : *files) seen[file.name]++;
  EXPECT_EQ(seen.size(), static_cast<size_t>(kFiles));
  EXPECT_EQ(files->size(), static_cast<size_t>(kFiles));
}

TEST(DirectoryListTest, NamesADirectoryThatIsMissingOrNone) {
  const test::TempDirectory directory;
  EXPECT_CODE(ListDirectory(directory.At("missing")), "ENOENT");
  test::WriteBytes(directory.At("file"), 0, {1});
  EXPECT_CODE(ListDirectory(directory.At("file")), "ENOTDIR");
}

}  // namespace
}  // namespace blockdelta
