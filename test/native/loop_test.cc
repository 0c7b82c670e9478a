// Attaching and detaching real loop devices while other processes use them.
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "native/device/files.h"
#include "native/device/loop_attach.h"
#include "native/device/loop_change.h"
#include "test/native/loop_fixture.h"
#include "test/native/status_assertions.h"

namespace blockdelta {
namespace {

using test::AttachedLoopTest;
using test::LoopTest;

TEST_F(LoopTest, AttachesAFileOnceAndReturnsItsDeviceToLaterCalls) {
  const std::string path = MakeFile("volume", kSize + 4096);
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
  EXPECT_TRUE(test::DetachWhenFree(path));
  EXPECT_FALSE(Find(path).has_value());
  EXPECT_FALSE(*DetachLoop(path));
}

TEST_F(LoopTest, SetsTheLabelAndDirectIoInTheKernel) {
  const std::string label(100, 'x');
  Result<AttachedLoop> attached = AttachLoop(MakeFile("volume"), false, label);
  ASSERT_OK(attached);
  Result<UniqueFd> fd = OpenLoop(attached->device.number, O_RDONLY);
  ASSERT_OK(fd);
  Result<struct loop_info64> info = LoopStatus(fd->get(), "");
  ASSERT_OK(info);
  EXPECT_EQ(std::string(reinterpret_cast<char*>(info->lo_file_name)), label.substr(0, 63));
  EXPECT_EQ(attached->device.direct_io, (info->lo_flags & LO_FLAGS_DIRECT_IO) != 0);
}

TEST_F(LoopTest, RefusesWritesToADeviceAttachedReadOnly) {
  const std::string path = MakeFile("volume");
  Result<AttachedLoop> attached = AttachLoop(path, true, "");
  ASSERT_OK(attached);
  EXPECT_TRUE(attached->device.read_only && attached->device.attached_read_only);
  EXPECT_FALSE(test::RunCommand("dd if=/dev/zero count=1 of=" + attached->device.path));
  EXPECT_CODE(AttachLoop(path, false, ""), "EEXIST");
}

TEST_F(LoopTest, GivesManyThreadsThatAttachOneFileOneDevice) {
  const std::string path = MakeFile("volume");
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

TEST_F(LoopTest, LetsThreadsAttachAndDetachTheirOwnFilesUndisturbed) {
  std::vector<std::thread> threads;
  std::vector<Status> outcomes(6);
  for (size_t i = 0; i < outcomes.size(); i++) {
    const std::string path = MakeFile("volume-" + std::to_string(i));
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

TEST_F(AttachedLoopTest, IsListedOnce) {
  Result<std::vector<LoopDevice>> devices = ListLoops();
  ASSERT_OK(devices);
  int times = 0;
  for (const LoopDevice& device : *devices) times += device.backing == Identity(path_) ? 1 : 0;
  EXPECT_EQ(times, 1);
}

TEST_F(AttachedLoopTest, IsFoundByTheIdentityOfItsFileAndNotByItsPath) {
  const std::string moved = At("moved");
  EXPECT_EQ(rename(path_.c_str(), moved.c_str()), 0);
  MakeFile("volume");  // Another file takes the name.
  EXPECT_FALSE(Find(path_).has_value());
  EXPECT_FALSE(*DetachLoop(path_));
  EXPECT_TRUE(Find(moved).has_value());
  EXPECT_TRUE(test::DetachWhenFree(moved));
}

TEST_F(LoopTest, DetachesNothingFromAMissingFile) {
  Result<bool> detached = DetachLoop(At("nowhere"));
  EXPECT_TRUE(detached.ok() && !*detached);
}

TEST_F(AttachedLoopTest, StaysAttachedWhileItIsMounted) {
  const std::string mount = At("mount");
  EXPECT_TRUE(test::RunCommand("mkfs.ext4 -q " + device_.path + " && mkdir " + mount +
                               " && mount " + device_.path + " " + mount));
  EXPECT_CODE(DetachLoop(path_), "EBUSY");
  EXPECT_TRUE(test::RunCommand("touch " + mount + "/file && sync " + mount + "/file"));
  EXPECT_TRUE(test::RunCommand("umount " + mount));
  EXPECT_TRUE(test::DetachWhenFree(path_));
}

TEST_F(AttachedLoopTest, StaysAttachedWhileAnotherProcessHasItOpen) {
  {
    Result<UniqueFd> opener = OpenLoop(device_.number, O_RDONLY);
    EXPECT_CODE(DetachLoop(path_), "EBUSY");
  }
  // Its last close by others must not detach it now.
  SleepMs(50);
  EXPECT_TRUE(Find(path_).has_value());
  EXPECT_TRUE(test::DetachWhenFree(path_));
}

TEST_F(AttachedLoopTest, IsDetachedOnceABriefOpenerHasClosedIt) {
  Result<UniqueFd> opener = OpenLoop(device_.number, O_RDONLY);
  std::thread closer([&opener] {
    SleepMs(20);
    opener->Close();
  });
  Result<bool> detached = DetachLoop(path_);
  EXPECT_OK(detached);
  EXPECT_TRUE(detached.ok() && *detached);
  closer.join();
  EXPECT_FALSE(Find(path_).has_value());
}

TEST_F(AttachedLoopTest, IsKeptWhenItsFileIsAttachedAgainAfterAHalfFinishedDetach) {
  Result<UniqueFd> opener = OpenLoop(device_.number, O_RDONLY);
  {
    Result<UniqueFd> killed = OpenLoop(device_.number, O_RDONLY);
    EXPECT_OK(Ioctl(killed->get(), LOOP_CLR_FD, 0ul, "LOOP_CLR_FD", ""));
  }
  EXPECT_OK(AttachLoop(path_, false, ""));
  opener->Close();
  SleepMs(50);
  EXPECT_TRUE(Find(path_).has_value());
}

TEST_F(AttachedLoopTest, IsIgnoredAfterLoopClrFdWhileAnotherProcessHasItOpen) {
  Result<UniqueFd> opener = OpenLoop(device_.number, O_RDONLY);
  EXPECT_OK(Ioctl(opener->get(), LOOP_CLR_FD, 0ul, "LOOP_CLR_FD", ""));
  EXPECT_OK(ListLoops());
  EXPECT_OK(AttachLoop(MakeFile("other"), false, ""));
}

TEST_F(LoopTest, DetachesAFileFromBothDevicesThatOthersAttachedItTo) {
  const std::string path = MakeFile("volume");
  EXPECT_TRUE(test::RunCommand("losetup -f " + path + " && losetup -f " + path));
  EXPECT_TRUE(test::DetachWhenFree(path));
  EXPECT_FALSE(Find(path).has_value());
}

TEST_F(AttachedLoopTest, DoesNotPassItsReadOnlyFlagToTheNextVolume) {
  EXPECT_OK(SetDeviceReadOnly(device_.path, true));
  Result<AttachedLoop> again = AttachLoop(path_, false, "");
  ASSERT_OK(again);
  EXPECT_TRUE(again->device.read_only && !again->device.attached_read_only);
  // Detached by losetup, so that the flag stays on the device number.
  EXPECT_TRUE(test::RunCommand("losetup -d " + device_.path));
  Result<AttachedLoop> next = AttachLoop(MakeFile("next"), false, "");
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
    const Status created = CreateSparseFile({path + ".tmp", path}, 32 << 20);
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

TEST_F(LoopTest, IgnoresADeviceWhoseFileSystemHasShutDown) {
  DeadLoop dead;
  if (!dead.Make()) return;
  {
    Result<UniqueFd> fd = OpenLoop(dead.number(), O_RDONLY);
    EXPECT_CODE(DescribeLoop(fd->get()), "EIO");
  }
  const std::string path = MakeFile("volume");
  EXPECT_FALSE(Find(path).has_value());
  ASSERT_OK(AttachLoop(path, false, ""));
  const std::optional<LoopDevice> found = Find(path);
  ASSERT_TRUE(found.has_value());
  Result<std::vector<LoopDevice>> listed = ListLoops();
  ASSERT_OK(listed);
  const auto is_listed = [&](uint32_t number) {
    return std::any_of(listed->begin(), listed->end(),
                       [&](const LoopDevice& each) { return each.number == number; });
  };
  EXPECT_TRUE(is_listed(found->number));
  EXPECT_FALSE(is_listed(dead.number()));
  EXPECT_TRUE(test::DetachWhenFree(path));
  EXPECT_FALSE(Find(path).has_value());
}

TEST_F(LoopTest, AttachesOnlyRegularFiles) {
  EXPECT_CODE(AttachLoop(At("."), true, ""), "EINVAL");
  EXPECT_CODE(AttachLoop(At("nowhere"), true, ""), "ENOENT");
}

}  // namespace
}  // namespace blockdelta
