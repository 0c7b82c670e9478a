// Attaching and detaching real loop devices, with others in the way.
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "native/device/block_device.h"
#include "native/device/files.h"
#include "native/device/loop_attach.h"
#include "test/native/loop_bench.h"
#include "test/native/status_assertions.h"

namespace blockdelta {
namespace {

TEST(LoopTest, AttachesAFileOnceWhoeverAsksAgain) {
  Bench bench;
  if (!bench.ready()) return;
  const std::string path = bench.MakeFile("volume", kSize + 4096);
  Result<AttachedLoop> first = AttachLoop(path, false, "a label");
  ASSERT_OK(first);
  EXPECT_TRUE(first->created && !first->device.read_only);
  EXPECT_EQ(first->device.size_bytes, kSize + 4096);
  EXPECT_EQ(first->device.backing, Identity(path));
  Result<AttachedLoop> second = AttachLoop(path, false, "another label");
  ASSERT_OK(second);
  EXPECT_FALSE(second->created);
  EXPECT_EQ(second->device.path, first->device.path);
  EXPECT_CODE(AttachLoop(path, true, ""), "EEXIST");
  EXPECT_TRUE(Detaches(path));
  EXPECT_FALSE(Find(path).has_value());
  EXPECT_FALSE(*DetachLoop(path));
}

TEST(LoopTest, SetsTheLabelAndDirectIoInTheKernel) {
  Bench bench;
  if (!bench.ready()) return;
  const std::string label(100, 'x');
  Result<AttachedLoop> attached = AttachLoop(bench.MakeFile("volume"), false, label);
  ASSERT_OK(attached);
  Result<UniqueFd> fd = OpenLoop(attached->device.number, O_RDONLY);
  ASSERT_OK(fd);
  Result<struct loop_info64> info = LoopStatus(fd->get(), "");
  ASSERT_OK(info);
  EXPECT_EQ(std::string(reinterpret_cast<char*>(info->lo_file_name)), label.substr(0, 63));
  EXPECT_EQ(attached->device.direct_io, (info->lo_flags & LO_FLAGS_DIRECT_IO) != 0);
}

TEST(LoopTest, RefusesWritesToADeviceAttachedReadOnly) {
  Bench bench;
  if (!bench.ready()) return;
  const std::string path = bench.MakeFile("volume");
  Result<AttachedLoop> attached = AttachLoop(path, true, "");
  ASSERT_OK(attached);
  EXPECT_TRUE(attached->device.read_only && attached->device.attached_read_only);
  EXPECT_FALSE(test::RunCommand("dd if=/dev/zero count=1 of=" + attached->device.path));
  EXPECT_CODE(AttachLoop(path, false, ""), "EEXIST");
}

TEST(LoopTest, GivesManyThreadsThatAttachOneFileOneDevice) {
  Bench bench;
  if (!bench.ready()) return;
  const std::string path = bench.MakeFile("volume");
  std::vector<std::thread> threads;
  std::vector<std::string> devices(8);
  for (std::string& device : devices) {
    threads.emplace_back([&device, &path] {
      Result<AttachedLoop> attached = AttachLoop(path, false, "");
      if (attached.ok()) device = attached->device.path;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::set<std::string>(devices.begin(), devices.end()).size(), 1u);
  EXPECT_FALSE(devices[0].empty());
}

TEST(LoopTest, LetsThreadsAttachAndDetachTheirOwnFilesUndisturbed) {
  Bench bench;
  if (!bench.ready()) return;
  std::vector<std::thread> threads;
  std::vector<Status> outcomes(6);
  for (size_t i = 0; i < outcomes.size(); i++) {
    const std::string path = bench.MakeFile("volume-" + std::to_string(i));
    threads.emplace_back([path, outcome = &outcomes[i]] {
      for (int round = 0; round < 10 && outcome->ok(); round++) {
        Result<AttachedLoop> attached = AttachLoop(path, false, "");
        *outcome = attached.TakeStatus();
        if (!outcome->ok()) return;
        Result<bool> detached = DetachLoop(path);
        *outcome = detached.TakeStatus();
        if (outcome->ok() && !*detached) *outcome = Status::Errno(ENXIO, "detach", path);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& outcome : outcomes) EXPECT_OK(outcome);
}

TEST(LoopTest, ListsEveryAttachedFile) {
  Bench bench;
  if (!bench.ready()) return;
  const std::string path = bench.MakeFile("volume");
  ASSERT_OK(AttachLoop(path, false, ""));
  Result<std::vector<LoopDevice>> devices = ListLoops();
  ASSERT_OK(devices);
  int times = 0;
  for (const LoopDevice& device : *devices) times += device.backing == Identity(path) ? 1 : 0;
  EXPECT_EQ(times, 1);
}

TEST(LoopTest, FindsADeviceByTheIdentityOfItsFileAndNotByItsPath) {
  Bench bench;
  if (!bench.ready()) return;
  const std::string path = bench.MakeFile("volume");
  const std::string moved = bench.At("moved");
  ASSERT_OK(AttachLoop(path, false, ""));
  EXPECT_EQ(rename(path.c_str(), moved.c_str()), 0);
  bench.MakeFile("volume");  // Another file takes the name.
  EXPECT_FALSE(Find(path).has_value());
  EXPECT_FALSE(*DetachLoop(path));
  EXPECT_TRUE(Find(moved).has_value());
  EXPECT_TRUE(Detaches(moved));
}

TEST(LoopTest, DetachesNothingFromAMissingFile) {
  Bench bench;
  if (!bench.ready()) return;
  Result<bool> detached = DetachLoop(bench.At("nowhere"));
  EXPECT_TRUE(detached.ok() && !*detached);
}

TEST(LoopTest, KeepsAMountedDeviceAttached) {
  Bench bench;
  if (!bench.ready()) return;
  const std::string path = bench.MakeFile("volume");
  Result<AttachedLoop> attached = AttachLoop(path, false, "");
  ASSERT_OK(attached);
  const std::string mount = bench.At("mount");
  EXPECT_TRUE(test::RunCommand("mkfs.ext4 -q " + attached->device.path + " && mkdir " + mount +
                               " && mount " + attached->device.path + " " + mount));
  EXPECT_CODE(DetachLoop(path), "EBUSY");
  EXPECT_TRUE(test::RunCommand("touch " + mount + "/file && sync " + mount + "/file"));
  EXPECT_TRUE(test::RunCommand("umount " + mount));
  EXPECT_TRUE(Detaches(path));
}

TEST(LoopTest, KeepsADeviceAttachedThatSomebodyHoldsOpen) {
  Bench bench;
  if (!bench.ready()) return;
  const std::string path = bench.MakeFile("volume");
  Result<AttachedLoop> attached = AttachLoop(path, false, "");
  ASSERT_OK(attached);
  {
    Result<UniqueFd> opener = OpenLoop(attached->device.number, O_RDONLY);
    EXPECT_CODE(DetachLoop(path), "EBUSY");
  }
  // Its last close by others must not detach it now.
  SleepMs(50);
  EXPECT_TRUE(Find(path).has_value());
  EXPECT_TRUE(Detaches(path));
}

TEST(LoopTest, WaitsForADeviceThatSomebodyHoldsOpenBriefly) {
  Bench bench;
  if (!bench.ready()) return;
  const std::string path = bench.MakeFile("volume");
  Result<AttachedLoop> attached = AttachLoop(path, false, "");
  ASSERT_OK(attached);
  Result<UniqueFd> opener = OpenLoop(attached->device.number, O_RDONLY);
  std::thread closer([&opener] {
    SleepMs(300);
    opener->Close();
  });
  EXPECT_TRUE(Detaches(path));
  closer.join();
  EXPECT_FALSE(Find(path).has_value());
}

TEST(LoopTest, KeepsAHalfDetachedDeviceWhenItsFileIsAttachedAgain) {
  Bench bench;
  if (!bench.ready()) return;
  const std::string path = bench.MakeFile("volume");
  Result<AttachedLoop> attached = AttachLoop(path, false, "");
  ASSERT_OK(attached);
  Result<UniqueFd> opener = OpenLoop(attached->device.number, O_RDONLY);
  {
    Result<UniqueFd> killed = OpenLoop(attached->device.number, O_RDONLY);
    EXPECT_OK(Ioctl(killed->get(), LOOP_CLR_FD, 0ul, "LOOP_CLR_FD", ""));
  }
  EXPECT_OK(AttachLoop(path, false, ""));
  opener->Close();
  SleepMs(50);
  EXPECT_TRUE(Find(path).has_value());
}

TEST(LoopTest, IgnoresAClearedDeviceThatSomebodyStillHoldsOpen) {
  Bench bench;
  if (!bench.ready()) return;
  Result<AttachedLoop> attached = AttachLoop(bench.MakeFile("volume"), false, "");
  ASSERT_OK(attached);
  Result<UniqueFd> opener = OpenLoop(attached->device.number, O_RDONLY);
  EXPECT_OK(Ioctl(opener->get(), LOOP_CLR_FD, 0ul, "LOOP_CLR_FD", ""));
  EXPECT_OK(ListLoops());
  EXPECT_OK(AttachLoop(bench.MakeFile("other"), false, ""));
}

TEST(LoopTest, DetachesAFileFromBothDevicesThatOthersAttachedItTo) {
  Bench bench;
  if (!bench.ready()) return;
  const std::string path = bench.MakeFile("volume");
  EXPECT_TRUE(test::RunCommand("losetup -f " + path + " && losetup -f " + path));
  EXPECT_TRUE(Detaches(path));
  EXPECT_FALSE(Find(path).has_value());
}

TEST(LoopTest, DoesNotPassAReadOnlyFlagToTheNextVolume) {
  Bench bench;
  if (!bench.ready()) return;
  const std::string path = bench.MakeFile("volume");
  Result<AttachedLoop> attached = AttachLoop(path, false, "");
  ASSERT_OK(attached);
  EXPECT_OK(SetDeviceReadOnly(attached->device.path, true));
  Result<AttachedLoop> again = AttachLoop(path, false, "");
  ASSERT_OK(again);
  EXPECT_TRUE(again->device.read_only && !again->device.attached_read_only);
  // Somebody else detaches it, so that the flag stays on the number.
  EXPECT_TRUE(test::RunCommand("losetup -d " + attached->device.path));
  Result<AttachedLoop> next = AttachLoop(bench.MakeFile("next"), false, "");
  ASSERT_OK(next);
  EXPECT_FALSE(next->device.read_only);
}

// A loop device whose file lies on a file system that has been shut down.
class DeadLoop {
 public:
  // False, and the test skipped, where none can be made.
  bool Make() {
    if (!test::RunCommand("command -v xfs_io")) {
      test::Skip("xfs_io is not installed");
      return false;
    }
    pool_ = test::Pool::Make("xfs");
    if (pool_ == nullptr) return false;
    const std::string path = pool_->At("volume");
    const Status created = CreateSparseFile({path + ".tmp", path}, kSize);
    EXPECT_OK(created);
    if (!created.ok()) return false;
    Result<AttachedLoop> attached = AttachLoop(path, false, "");
    EXPECT_OK(attached);
    if (!attached.ok()) return false;
    number_ = attached->device.number;
    const bool shut_down = test::RunCommand("xfs_io -x -c shutdown " + pool_->mount_point());
    EXPECT_TRUE(shut_down);
    return shut_down;
  }
  ~DeadLoop() {
    if (!number_.has_value()) return;
    Result<UniqueFd> fd = OpenLoop(*number_, O_RDONLY);
    EXPECT_OK(fd);
    if (fd.ok()) {
      EXPECT_OK(Ioctl(fd->get(), LOOP_CLR_FD, 0ul, "LOOP_CLR_FD", ""));
    }
  }

  uint32_t number() const { return *number_; }

 private:
  std::unique_ptr<test::Pool> pool_;
  std::optional<uint32_t> number_;
};

TEST(LoopTest, IgnoresADeviceWhoseFileSystemHasShutDown) {
  Bench bench;
  if (!bench.ready()) return;
  DeadLoop dead;
  if (!dead.Make()) return;
  {
    Result<UniqueFd> fd = OpenLoop(dead.number(), O_RDONLY);
    EXPECT_CODE(DescribeLoop(fd->get()), "EIO");
  }
  const std::string path = bench.MakeFile("volume");
  EXPECT_FALSE(Find(path).has_value());
  ASSERT_OK(AttachLoop(path, false, ""));
  EXPECT_TRUE(Find(path).has_value());
  EXPECT_TRUE(Detaches(path));
  EXPECT_FALSE(Find(path).has_value());
}

TEST(LoopTest, AttachesOnlyRegularFiles) {
  Bench bench;
  if (!bench.ready()) return;
  EXPECT_CODE(AttachLoop(bench.At("."), true, ""), "EINVAL");
  EXPECT_CODE(AttachLoop(bench.At("nowhere"), true, ""), "ENOENT");
}

}  // namespace
}  // namespace blockdelta
