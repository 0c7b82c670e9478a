// Real file systems for tests: an image on a loop device, mounted in a private directory.
//
// Everything is gone when the objects are; what a crash leaves behind, scripts/test-native removes.
#ifndef BLOCKDELTA_TEST_NATIVE_POOL_H_
#define BLOCKDELTA_TEST_NATIVE_POOL_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "native/scan/snapshot_file.h"

namespace blockdelta::test {

// GTEST_SKIP returns from a void function. Functions that return something else call this.
inline void Skip(const std::string& reason) { GTEST_SKIP() << reason; }

// Runs a shell command without output; whether it succeeded.
bool RunCommand(const std::string& command);

class TempDirectory {
 public:
  TempDirectory();
  ~TempDirectory();
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  std::string At(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

class Pool {
 public:
  // `kind`: "xfs", "btrfs" or "ext4". Null, and the test skipped with the reason, if it cannot be
  // made here. Both kinds of options may be empty.
  static std::unique_ptr<Pool> Make(const std::string& kind, const std::string& mount_options = "",
                                    const std::string& mkfs_options = "");
  ~Pool();

  std::string At(const std::string& name) const { return directory_.At("mount/" + name); }
  std::string mount_point() const { return directory_.At("mount"); }

 private:
  Pool() = default;

  TempDirectory directory_;
};

// A test of file systems, run for each kind that the suite is instantiated with.
class PoolTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { pool_ = Pool::Make(GetParam()); }

  std::unique_ptr<Pool> pool_;
};

// Names an instance of such a test.
inline std::string KindOf(const testing::TestParamInfo<const char*>& info) { return info.param; }

bool Exists(const std::string& path);
void WriteBytes(const std::string& path, uint64_t offset, const std::vector<uint8_t>& bytes);
std::vector<uint8_t> ReadBytes(const std::string& path);
// Sets or clears the immutable flag of a file.
Status SetImmutable(const std::string& path, bool immutable);
SnapshotIdentity IdentityOf(const std::string& path);

}  // namespace blockdelta::test

#endif  // BLOCKDELTA_TEST_NATIVE_POOL_H_
