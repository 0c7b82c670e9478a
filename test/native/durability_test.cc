// What a call has changed survives a power cut: a file is flushed after its last change and before
// it gets its name, and its directory after that. A kill would not tell, because the page cache
// outlives it, so the steps are recorded: the functions of the C library that take them are
// replaced in this program. They pass everything on.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

#include "native/device/files.h"
#include "native/device/take_snapshots.h"
#include "native/scan/change_list_union.h"
#include "native/scan/change_list_writer.h"
#include "native/thin/create_bookmark.h"
#include "test/native/pool.h"
#include "test/native/status_assertions.h"
#include "test/native/thin_image.h"

namespace {

struct Step {
  enum Kind { kChange, kFlush, kRename, kRemove } kind;
  std::string path;
  std::string to;  // Of a rename.
};

std::mutex mutex;
std::vector<Step>* recorded = nullptr;  // Null: nothing is recorded.

void Record(Step::Kind kind, const std::string& path, const std::string& to = "") {
  const std::lock_guard<std::mutex> lock(mutex);
  if (recorded != nullptr) recorded->push_back({kind, path, to});
}

void RecordFd(Step::Kind kind, int fd) {
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = readlink(link.c_str(), path, sizeof path);
  if (length > 0) Record(kind, std::string(path, static_cast<size_t>(length)));
}

}  // namespace

extern "C" {

int fsync(int fd) {
  RecordFd(Step::kFlush, fd);
  return static_cast<int>(syscall(SYS_fsync, fd));
}

ssize_t pwrite64(int fd, const void* data, size_t bytes, off64_t offset) {
  RecordFd(Step::kChange, fd);
  return syscall(SYS_pwrite64, fd, data, bytes, offset);
}

int ftruncate64(int fd, off64_t size) noexcept {
  RecordFd(Step::kChange, fd);
  return static_cast<int>(syscall(SYS_ftruncate, fd, size));
}

int rename(const char* from, const char* to) noexcept {
  Record(Step::kRename, from, to);
  return static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int renameat2(int from_fd, const char* from, int to_fd, const char* to, unsigned flags) noexcept {
  Record(Step::kRename, from, to);
  return static_cast<int>(syscall(SYS_renameat2, from_fd, from, to_fd, to, flags));
}

int unlink(const char* path) noexcept {
  Record(Step::kRemove, path);
  return static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}

}  // extern "C"

namespace blockdelta::test {
namespace {

class Recording {
 public:
  Recording() { Set(&steps_); }
  ~Recording() { Set(nullptr); }

  // Ends it. Each step that a power cut may undo although the call has succeeded, in words.
  std::vector<std::string> Undurable() {
    Set(nullptr);
    std::vector<std::string> found;
    for (size_t i = 0; i < steps_.size(); i++) {
      const Step& step = steps_[i];
      if (step.kind == Step::kRename && IsChanged(step.path, i)) {
        found.push_back(step.path + " is renamed before it is flushed");
      }
      const bool names = step.kind == Step::kRename || step.kind == Step::kRemove;
      const std::string& name = step.kind == Step::kRename ? step.to : step.path;
      if (names && !IsFlushedAfter(DirectoryOf(name), i)) {
        found.push_back("the directory of " + name + " is not flushed afterwards");
      }
    }
    return found;
  }

  // After the file got its name.
  bool IsFlushedUnderItsName(const std::string& path) const {
    for (size_t i = 0; i < steps_.size(); i++) {
      if (steps_[i].kind == Step::kRename && steps_[i].to == path) return IsFlushedAfter(path, i);
    }
    return false;
  }

 private:
  static void Set(std::vector<Step>* steps) {
    const std::lock_guard<std::mutex> lock(mutex);
    recorded = steps;
  }

  // Whether the last step of the file before that one is a change.
  bool IsChanged(const std::string& path, size_t before) const {
    for (size_t i = before; i > 0; i--) {
      if (steps_[i - 1].path == path) return steps_[i - 1].kind == Step::kChange;
    }
    return false;
  }

  bool IsFlushedAfter(const std::string& path, size_t after) const {
    return std::any_of(
        steps_.begin() + static_cast<std::ptrdiff_t>(after), steps_.end(),
        [&](const Step& step) { return step.kind == Step::kFlush && step.path == path; });
  }

  std::vector<Step> steps_;
};

using Nothing = std::vector<std::string>;

class DurabilityTest : public InDirectory {};

TEST_F(DurabilityTest, NewAndRemovedFilesSurviveAPowerCut) {
  const std::string path = At("volume");
  {
    Recording recording;
    ASSERT_OK(CreateSparseFile(Names(path), 1 << 20));
    EXPECT_EQ(recording.Undurable(), Nothing());
    EXPECT_TRUE(Exists(path));
  }
  Recording recording;
  ASSERT_OK(RemoveFile(path));
  EXPECT_EQ(recording.Undurable(), Nothing());
}

TEST_F(DurabilityTest, ClonesAndSnapshotsSurviveAPowerCut) {
  const Pool pool("xfs");
  const std::string volume = MakeFile(pool.At("volume"), 1 << 20);
  const std::string snapshot = pool.At("snapshot");
  {
    Recording recording;
    ASSERT_OK(TakeSnapshots({{volume, Names(snapshot), {}, {}}}));
    EXPECT_EQ(recording.Undurable(), Nothing());
    // It became immutable under its name.
    EXPECT_TRUE(recording.IsFlushedUnderItsName(snapshot));
  }
  Recording recording;
  ASSERT_OK(CloneFile(snapshot, Names(pool.At("copy")), 2 << 20));
  EXPECT_EQ(recording.Undurable(), Nothing());
}

TEST_F(DurabilityTest, ChangeListsSurviveAPowerCut) {
  const auto snapshot = [](uint64_t n) {
    return ListedSnapshot{"snapshot-" + std::to_string(n), {100 + n, n, 1 << 20, 1000 + n}};
  };
  for (uint64_t n = 1; n <= 2; n++) {
    const std::string path = At(std::to_string(n));
    Recording recording;
    ASSERT_VALUE(list, ChangeListWriter::Create(path + ".tmp", ChangeListKind::kDelta));
    ASSERT_OK(list.Add({0, 4096 * n}));
    ASSERT_OK(list.Flush());
    ASSERT_OK(list.Publish(snapshot(n), snapshot(n - 1), path));
    EXPECT_EQ(recording.Undurable(), Nothing());
  }
  Recording recording;
  ASSERT_OK(JoinChangeLists({At("1"), At("2"), At("joined.tmp"), At("joined")}));
  EXPECT_EQ(recording.Undurable(), Nothing());
}

TEST_F(DurabilityTest, BookmarksSurviveAPowerCut) {
  MappingTrees trees(4);
  PoolPlan plan;
  plan.devices = {{1, trees.Set(trees.Empty(), 5, 7 << 24), 1}};
  WriteBytes(At("metadata"), 0, MakePool(trees, plan).image);
  Recording recording;
  ASSERT_OK(
      CreateBookmark({At("metadata"), 0, {1, std::nullopt}, 1 << 20, At("kept.tmp"), At("kept")}));
  EXPECT_EQ(recording.Undurable(), Nothing());
}

}  // namespace
}  // namespace blockdelta::test
