// Real files, and real file systems: an image on a loop device, mounted in a private directory.
//
// Everything is gone when the objects are; what a crash leaves behind, scripts/test-native removes.
#ifndef BLOCKDELTA_TEST_NATIVE_POOL_H_
#define BLOCKDELTA_TEST_NATIVE_POOL_H_

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "native/device/take_snapshots.h"
#include "native/scan/snapshot_file.h"

namespace blockdelta::test {

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

// A test in a directory of its own.
class InDirectory : public testing::Test {
 protected:
  std::string At(const std::string& name) const { return directory_.At(name); }

  const TempDirectory directory_;
};

class Pool {
 public:
  // `kind`: "xfs", "btrfs" or "ext4". Both kinds of options may be empty. Ends the program where
  // that does not work.
  explicit Pool(const std::string& kind, const std::string& mount_options = "",
                const std::string& mkfs_options = "");
  ~Pool();

  std::string At(const std::string& name) const { return directory_.At("mount/" + name); }
  std::string mount_point() const { return directory_.At("mount"); }

 private:
  TempDirectory directory_;
};

// A volume in a pool, on a loop device, raw or with a mounted file system.
class Volume {
 public:
  // `kind`: "ext4", "xfs" or "btrfs", made and mounted; "" for a raw device. Ends the program where
  // that does not work.
  Volume(const Pool& pool, const std::string& name, const std::string& kind, uint64_t size_bytes);
  ~Volume();

  const std::string& path() const { return path_; }
  const std::string& loop() const { return loop_; }
  const std::string& mount_point() const { return mount_; }
  // Of the volume as it is: with its loop device, frozen if it is mounted.
  NewSnapshotFile Member(const std::string& snapshot) const;
  bool Unmount();
  // Whether the file system is not frozen. Thaws it if it is.
  bool IsThawed() const;

 private:
  TempDirectory directory_;
  const std::string pool_;
  const std::string path_;
  std::string loop_;
  std::string mount_;  // Empty: raw, or unmounted.
};

// A test in a pool of its own.
class InPool : public testing::Test {
 protected:
  explicit InPool(const std::string& kind, const std::string& mount_options = "",
                  const std::string& mkfs_options = "")
      : pool_(kind, mount_options, mkfs_options) {}

  std::string At(const std::string& name) const { return pool_.At(name); }
  Volume* Make(const std::string& name, const std::string& kind, uint64_t size_bytes) {
    volumes_.push_back(std::make_unique<Volume>(pool_, name, kind, size_bytes));
    return volumes_.back().get();
  }

  const Pool pool_;

 private:
  std::vector<std::unique_ptr<Volume>> volumes_;
};

class InXfs : public InPool {
 protected:
  InXfs() : InPool("xfs") {}
};

class InBtrfs : public InPool {
 protected:
  InBtrfs() : InPool("btrfs") {}
};

// Run for each kind that the suite is instantiated with.
class InEachPool : public InPool, public testing::WithParamInterface<const char*> {
 protected:
  InEachPool() : InPool(GetParam()) {}
};
// Names an instance of such a test.
inline std::string KindOf(const testing::TestParamInfo<const char*>& info) { return info.param; }

// Run for each `Case`, which has a name, and a kind and options of a pool.
template <typename Case>
class InPoolOf : public InPool, public testing::WithParamInterface<Case> {
 protected:
  InPoolOf() : InPoolOf(testing::WithParamInterface<Case>::GetParam()) {}

 private:
  explicit InPoolOf(const Case& each) : InPool(each.kind, each.mount_options, each.mkfs_options) {}
};
template <typename Case>
std::string NameOf(const testing::TestParamInfo<Case>& info) {
  return info.param.name;
}

// Detaches the file from its devices; false if there was none. A tool that has one open, or another
// mount namespace with a copy of a mount that was just unmounted, holds it for a moment: tries
// again, and fails the test if the device is still attached after half a minute.
bool DetachWhenFree(const std::string& path);

// Mounts the file system in a file, read only, for as long as `use` runs.
void WithMounted(const std::string& file, const std::string& options,
                 const std::function<void(const std::string& mount)>& use);

// Calls `step` again and again on a thread of its own, for as long as it lives.
class Background {
 public:
  explicit Background(std::function<void()> step)
      : thread_([this, step = std::move(step)] {
          while (!stops_) step();
        }) {}
  ~Background() { Stop(); }
  void Stop() {
    stops_ = true;
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::atomic<bool> stops_ = false;
  std::thread thread_;
};

// Works on random places of a file: writes, zeros, holes, preallocations, and a few fsyncs.
class RandomWriter {
 public:
  // `only_writes`: neither holes nor preallocations.
  RandomWriter(const std::string& path, uint64_t seed, bool only_writes = false);

  uint64_t Below(uint64_t limit) {
    return std::uniform_int_distribution<uint64_t>(0, limit - 1)(random_);
  }
  // Up to 8 blocks of 4 KiB.
  void Step();

 private:
  const std::string path_;
  const UniqueFd fd_;
  const uint64_t blocks_;
  const bool only_writes_;
  std::mt19937_64 random_;
};

bool Exists(const std::string& path);
struct stat StateOf(const std::string& path);
UniqueFd Open(const std::string& path, int flags);
// Of a new file with that path.
NewFileNames Names(const std::string& path);
// Makes a sparse file; its path.
std::string MakeFile(const std::string& path, uint64_t size_bytes);
void WriteBytes(const std::string& path, uint64_t offset, const std::vector<uint8_t>& bytes);
std::vector<uint8_t> ReadBytes(const std::string& path);
// Sets or clears the immutable flag of a file.
Status SetImmutable(const std::string& path, bool immutable);
SnapshotIdentity IdentityOf(const std::string& path);

}  // namespace blockdelta::test

#endif  // BLOCKDELTA_TEST_NATIVE_POOL_H_
