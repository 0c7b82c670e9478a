// Fixtures for tests of loop devices.
#ifndef BLOCKDELTA_TEST_NATIVE_LOOP_FIXTURE_H_
#define BLOCKDELTA_TEST_NATIVE_LOOP_FIXTURE_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "native/device/files.h"
#include "native/device/loop_attach.h"
#include "test/native/pool.h"
#include "test/native/status_assertions.h"
#include "test/native/volume.h"

namespace blockdelta::test {

// A directory of backing files, which are detached from all devices at the end.
class LoopTest : public testing::Test {
 protected:
  static constexpr uint64_t kSize = 32 << 20;

  void SetUp() override {
    if (geteuid() != 0 || access("/dev/loop-control", R_OK | W_OK) != 0) {
      GTEST_SKIP() << "needs root and /dev/loop-control";
    }
  }
  void TearDown() override {
    for (const std::string& path : files_) DetachWhenFree(path);
  }

  std::string MakeFile(const std::string& name, uint64_t size = kSize) {
    files_.push_back(directory_.At(name));
    EXPECT_OK(CreateSparseFile({files_.back() + ".tmp", files_.back()}, size));
    return files_.back();
  }
  std::string At(const std::string& name) const { return directory_.At(name); }

  static FileIdentity Identity(const std::string& path) {
    const SnapshotIdentity identity = IdentityOf(path);
    return {identity.device, identity.inode};
  }
  static std::optional<LoopDevice> Find(const std::string& path) {
    Result<std::optional<LoopDevice>> found = FindLoop(Identity(path), path);
    EXPECT_OK(found);
    return found.ok() ? *found : std::nullopt;
  }

 private:
  TempDirectory directory_;
  std::vector<std::string> files_;
};

// One file is attached to begin with.
class AttachedLoopTest : public LoopTest {
 protected:
  void SetUp() override {
    LoopTest::SetUp();
    if (IsSkipped()) return;
    path_ = MakeFile("volume");
    Result<AttachedLoop> attached = AttachLoop(path_, false, "");
    ASSERT_OK(attached);
    device_ = attached->device;
  }

  std::string path_;
  LoopDevice device_;
};

}  // namespace blockdelta::test

#endif  // BLOCKDELTA_TEST_NATIVE_LOOP_FIXTURE_H_
