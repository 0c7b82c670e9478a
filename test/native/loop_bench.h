// Files to attach for tests of loop devices, and what they ask of them.
#ifndef BLOCKDELTA_TEST_NATIVE_LOOP_BENCH_H_
#define BLOCKDELTA_TEST_NATIVE_LOOP_BENCH_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "native/device/files.h"
#include "native/device/loop_attach.h"
#include "test/native/pool.h"
#include "test/native/status_assertions.h"

namespace blockdelta {

inline constexpr uint64_t kSize = 32 << 20;

// A directory with backing files that are detached from everything at the end.
class Bench {
 public:
  // False, and the test skipped, where there are no loop devices.
  bool ready() const {
    if (geteuid() == 0 && access("/dev/loop-control", R_OK | W_OK) == 0) return true;
    test::Skip("needs root and /dev/loop-control");
    return false;
  }
  ~Bench() {
    for (const std::string& path : files_) static_cast<void>(DetachLoop(path));
  }

  std::string MakeFile(const std::string& name, uint64_t size = kSize) {
    files_.push_back(directory_.At(name));
    EXPECT_OK(CreateSparseFile({files_.back() + ".tmp", files_.back()}, size));
    return files_.back();
  }
  std::string At(const std::string& name) const { return directory_.At(name); }

 private:
  test::TempDirectory directory_;
  std::vector<std::string> files_;
};

inline FileIdentity Identity(const std::string& path) {
  const SnapshotIdentity identity = test::IdentityOf(path);
  return {identity.device, identity.inode};
}

inline std::optional<LoopDevice> Find(const std::string& path) {
  Result<std::optional<LoopDevice>> found = FindLoop(Identity(path), path);
  EXPECT_OK(found);
  return found.ok() ? *found : std::nullopt;
}

inline bool Detaches(const std::string& path) {
  Result<bool> detached = DetachLoop(path);
  EXPECT_OK(detached);
  return detached.ok() && *detached;
}

}  // namespace blockdelta

#endif  // BLOCKDELTA_TEST_NATIVE_LOOP_BENCH_H_
