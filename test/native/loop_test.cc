// Attaching and detaching real loop devices while other processes use them, and finding the device
// of a file among those of others.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "native/device/files.h"
#include "native/device/loop_attach.h"
#include "native/device/loop_change.h"
#include "test/native/pool.h"
#include "test/native/status_assertions.h"

namespace blockdelta::test {
namespace {

// A directory of backing files, which are detached from all devices at the end.
class LoopTest : public InDirectory {
 protected:
  static constexpr uint64_t kSize = 32 << 20;

  void TearDown() override {
    for (const std::string& path : files_) DetachWhenFree(path);
  }

  std::string Make(const std::string& name, uint64_t size = kSize) {
    files_.push_back(MakeFile(At(name), size));
    return files_.back();
  }

  static FileIdentity Identity(const std::string& path) {
    const SnapshotIdentity identity = IdentityOf(path);
    return {identity.device, identity.inode};
  }
  static std::optional<LoopDevice> Find(const std::string& path) {
    return ValueOf(FindLoop({Identity(path), path}));
  }
  // Of the file's device; empty without one.
  static std::string DevicePath(const std::string& path) {
    return Find(path).value_or(LoopDevice()).path;
  }

 private:
  std::vector<std::string> files_;
};

// One file is attached to begin with.
class AttachedLoopTest : public LoopTest {
 protected:
  void SetUp() override {
    path_ = Make("volume");
    ASSERT_VALUE(attached, AttachLoop(path_, false, ""));
    device_ = attached.device;
  }

  std::string path_;
  LoopDevice device_;
};

TEST_F(LoopTest, AttachesARegularFileOnceAndReturnsItsDeviceToLaterCalls) {
  const std::string path = Make("volume", kSize + 4096);
  ASSERT_VALUE(first, AttachLoop(path, false, "a label"));
  EXPECT_TRUE(first.created && !first.device.read_only);
  EXPECT_EQ(first.device.size_bytes, kSize + 4096);
  EXPECT_EQ(first.device.backing, Identity(path));
  ASSERT_VALUE(second, AttachLoop(path, false, "another label"));
  EXPECT_FALSE(second.created);
  EXPECT_EQ(second.device.path, first.device.path);
  EXPECT_CODE(AttachLoop(path, true, ""), "EEXIST");
  EXPECT_TRUE(DetachWhenFree(path));
  EXPECT_FALSE(Find(path).has_value());
  EXPECT_FALSE(*DetachLoop(path));
  EXPECT_FALSE(*DetachLoop(At("nowhere")));
  EXPECT_CODE(AttachLoop(At("."), true, ""), "EINVAL");
  EXPECT_CODE(AttachLoop(At("nowhere"), true, ""), "ENOENT");
}

TEST_F(LoopTest, SetsTheLabelAndDirectIoInTheKernel) {
  const std::string label(100, 'x');
  ASSERT_VALUE(attached, AttachLoop(Make("volume"), false, label));
  ASSERT_VALUE(fd, OpenLoop(attached.device.number, O_RDONLY));
  ASSERT_VALUE(info, LoopStatus(fd.get(), ""));
  EXPECT_EQ(std::string(reinterpret_cast<char*>(info.lo_file_name)), label.substr(0, 63));
  EXPECT_EQ(attached.device.direct_io, (info.lo_flags & LO_FLAGS_DIRECT_IO) != 0);
}

TEST_F(LoopTest, RefusesWritesToADeviceAttachedReadOnly) {
  const std::string path = Make("volume");
  ASSERT_VALUE(attached, AttachLoop(path, true, ""));
  EXPECT_TRUE(attached.device.read_only && attached.device.attached_read_only);
  EXPECT_FALSE(RunCommand("dd if=/dev/zero count=1 of=" + attached.device.path));
  EXPECT_CODE(AttachLoop(path, false, ""), "EEXIST");
}

TEST_F(LoopTest, GivesManyThreadsThatAttachOneFileOneDevice) {
  const std::string path = Make("volume");
  std::vector<std::thread> threads;
  std::vector<std::string> devices(8);
  for (std::string& device : devices) {
    threads.emplace_back(
        [&device, &path] { device = ValueOf(AttachLoop(path, false, "")).device.path; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::set<std::string>(devices.begin(), devices.end()).size(), 1u);
  EXPECT_FALSE(devices[0].empty());
}

TEST_F(LoopTest, LetsThreadsAttachAndDetachTheirOwnFilesUndisturbed) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; i++) {
    threads.emplace_back([path = Make("volume-" + std::to_string(i))] {
      for (int round = 0; round < 10; round++) {
        ASSERT_OK(AttachLoop(path, false, ""));
        EXPECT_TRUE(ValueOf(DetachLoop(path)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(AttachedLoopTest, IsListedOnceAndFoundByTheIdentityOfItsFileAndNotByItsPath) {
  ASSERT_VALUE(devices, ListLoops());
  EXPECT_EQ(std::count_if(devices.begin(), devices.end(),
                          [&](const LoopDevice& each) { return each.backing == Identity(path_); }),
            1);
  const std::string moved = At("moved");
  EXPECT_EQ(rename(path_.c_str(), moved.c_str()), 0);
  Make("volume");  // Another file takes the name.
  EXPECT_FALSE(Find(path_).has_value());
  EXPECT_FALSE(*DetachLoop(path_));
  EXPECT_TRUE(Find(moved).has_value());
  EXPECT_TRUE(DetachWhenFree(moved));
}

TEST_F(AttachedLoopTest, StaysAttachedWhileItIsMounted) {
  const std::string mount = At("mount");
  EXPECT_TRUE(RunCommand("mkfs.ext4 -q " + device_.path + " && mkdir " + mount + " && mount " +
                         device_.path + " " + mount));
  EXPECT_CODE(DetachLoop(path_), "EBUSY");
  EXPECT_TRUE(RunCommand("touch " + mount + "/file && sync " + mount + "/file"));
  EXPECT_TRUE(RunCommand("umount " + mount));
  EXPECT_TRUE(DetachWhenFree(path_));
}

TEST_F(AttachedLoopTest, StaysAttachedWhileAnotherProcessHasItOpen) {
  {
    const UniqueFd opener = ValueOf(OpenLoop(device_.number, O_RDONLY));
    EXPECT_CODE(DetachLoop(path_), "EBUSY");
  }
  // Its last close by others must not detach it now.
  SleepMs(50);
  EXPECT_TRUE(Find(path_).has_value());
  EXPECT_TRUE(DetachWhenFree(path_));
}

// As the kubelet puts one on a raw volume: on the device's node, bound to a path of its own.
class StackedLoopTest : public AttachedLoopTest {
 protected:
  void SetUp() override {
    AttachedLoopTest::SetUp();
    node_ = MakeFile(At("node"), 0);
    ASSERT_TRUE(RunCommand("mount --bind " + device_.path + " " + node_));
    ASSERT_TRUE(RunCommand("losetup -f " + node_));
    stacked_ = Find(device_.path).value_or(LoopDevice());
  }

  void TearDown() override {
    RunCommand("umount -l " + node_ + " 2> /dev/null");
    if (IsStacked()) RunCommand("losetup -d " + stacked_.path);
    AttachedLoopTest::TearDown();
  }

  bool IsStacked() const { return Find(device_.path).has_value(); }
  void Unmount() const { EXPECT_TRUE(RunCommand("umount -l " + node_)); }
  bool Detach() const { return ValueOf(DetachUnmountedLoops(device_.path)); }

  std::string node_;
  LoopDevice stacked_;
};

TEST_F(StackedLoopTest, IsDetachedOnceItsNodeIsMountedNowhere) {
  EXPECT_FALSE(Detach());
  EXPECT_TRUE(IsStacked());
  Unmount();
  EXPECT_TRUE(Detach());
  EXPECT_FALSE(IsStacked());
  EXPECT_TRUE(Find(path_).has_value());
}

TEST_F(StackedLoopTest, StaysWhileItIsOpenOrHeldExclusively) {
  Unmount();
  for (const int flags : {O_RDONLY, O_RDONLY | O_EXCL}) {
    {
      const UniqueFd user = ValueOf(OpenLoop(stacked_.number, flags));
      EXPECT_OK(SetDeviceReadOnly(stacked_.path, true));
      EXPECT_FALSE(Detach());
      EXPECT_TRUE(ValueOf(DescribeLoop(user.get())).read_only);
      // Its number would keep that.
      EXPECT_OK(SetDeviceReadOnly(stacked_.path, false));
    }
    // The last close of its user must not detach it either.
    SleepMs(50);
    EXPECT_TRUE(IsStacked());
  }
}

TEST_F(StackedLoopTest, StaysIfItStandsOnAnotherDevice) {
  Unmount();
  ASSERT_VALUE(other, AttachLoop(Make("other"), false, ""));
  EXPECT_FALSE(ValueOf(DetachUnmountedLoops(other.device.path)));
  EXPECT_TRUE(IsStacked());
}

TEST_F(AttachedLoopTest, IsDetachedOnceABriefOpenerHasClosedIt) {
  Result<UniqueFd> opener = OpenLoop(device_.number, O_RDONLY);
  std::thread closer([&opener] {
    SleepMs(20);
    opener->Close();
  });
  EXPECT_TRUE(ValueOf(DetachLoop(path_)));
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
  EXPECT_OK(AttachLoop(Make("other"), false, ""));
}

TEST_F(LoopTest, DetachesAFileFromBothDevicesThatOthersAttachedItTo) {
  const std::string path = Make("volume");
  EXPECT_TRUE(RunCommand("losetup -f " + path + " && losetup -f " + path));
  EXPECT_TRUE(DetachWhenFree(path));
  EXPECT_FALSE(Find(path).has_value());
}

TEST_F(AttachedLoopTest, IsReadOnlyForLaterCallsIfItWasSetReadOnlyMeanwhile) {
  EXPECT_OK(SetDeviceReadOnly(device_.path, true));
  ASSERT_VALUE(again, AttachLoop(path_, false, ""));
  EXPECT_TRUE(again.device.read_only && !again.device.attached_read_only);
}

TEST_F(AttachedLoopTest, StaysReadOnlyIfAnotherProcessKeepsItAttached) {
  for (const bool read_only : {true, false}) {
    EXPECT_OK(SetDeviceReadOnly(device_.path, read_only));
    const UniqueFd opener = ValueOf(OpenLoop(device_.number, O_RDONLY));
    EXPECT_CODE(DetachLoop(path_), "EBUSY");
    EXPECT_EQ(ValueOf(DescribeLoop(opener.get())).read_only, read_only);
  }
}

TEST_F(LoopTest, IgnoresADeviceWhoseFileLiesOnAFileSystemThatHasBeenShutDown) {
  if (!RunCommand("command -v xfs_io")) GTEST_SKIP() << "xfs_io is not installed";
  const Pool pool("xfs");
  ASSERT_VALUE(attached, AttachLoop(MakeFile(pool.At("volume"), kSize), false, ""));
  ASSERT_TRUE(RunCommand("xfs_io -x -c shutdown " + pool.mount_point()));
  ASSERT_VALUE(dead, OpenLoop(attached.device.number, O_RDONLY));
  EXPECT_CODE(DescribeLoop(dead.get()), "EIO");
  const std::string path = Make("volume");
  EXPECT_FALSE(Find(path).has_value());
  EXPECT_OK(AttachLoop(path, false, ""));
  const LoopDevice found = Find(path).value_or(LoopDevice());
  const std::vector<LoopDevice> listed = ValueOf(ListLoops());
  const auto is_listed = [&](uint32_t number) {
    return std::any_of(listed.begin(), listed.end(),
                       [&](const LoopDevice& each) { return each.number == number; });
  };
  EXPECT_TRUE(is_listed(found.number));
  EXPECT_FALSE(is_listed(attached.device.number));
  EXPECT_TRUE(DetachWhenFree(path));
  EXPECT_FALSE(Find(path).has_value());
  EXPECT_OK(Ioctl(dead.get(), LOOP_CLR_FD, 0ul, "LOOP_CLR_FD", ""));
}

// Two files are attached, "other" before "volume".
class LoopFindTest : public AttachedLoopTest {
 protected:
  void SetUp() override {
    ASSERT_VALUE(other, AttachLoop(Make("other"), false, ""));
    other_ = other.device;
    AttachedLoopTest::SetUp();
  }

  LoopDevice other_;
};

TEST_F(LoopFindTest, FindsAFileUnderItsOwnNameOrThroughADescriptorWithoutOpeningOtherDevices) {
  ASSERT_VALUE(directory, OpenPath(At("."), O_PATH | O_DIRECTORY));
  const auto find = [&] {
    // To open the other device by its number is an error here: its node is that of another device.
    ASSERT_EQ(unshare(CLONE_NEWNS), 0);
    ASSERT_EQ(mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr), 0);
    ASSERT_EQ(mount("/dev/null", other_.path.c_str(), nullptr, MS_BIND, nullptr), 0);
    ASSERT_TRUE(OpenLoop(other_.number, O_RDONLY).status().IsErrno(ENOTBLK));
    for (const std::string& path :
         {path_, "/proc/self/fd/" + std::to_string(directory.get()) + "/volume"}) {
      EXPECT_EQ(DevicePath(path), device_.path);
    }
  };
  std::thread(find).join();
}

TEST_F(LoopFindTest, TakesAHintOnlyIfTheDeviceHasTheFileNow) {
  const auto find = [&](uint32_t hint) {
    return ValueOf(FindLoop({Identity(path_), path_, -1, hint})).value_or(LoopDevice()).path;
  };
  EXPECT_EQ(find(device_.number), device_.path);
  EXPECT_EQ(find(other_.number), device_.path);
  EXPECT_EQ(find(UINT32_MAX), device_.path);
  const auto hidden = [&] {
    // Every look at a device that is not the hinted one is an error here: sysfs is not there.
    ASSERT_EQ(unshare(CLONE_NEWNS), 0);
    ASSERT_EQ(mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr), 0);
    ASSERT_EQ(mount("tmpfs", "/sys", "tmpfs", 0, nullptr), 0);
    EXPECT_FALSE(FindLoop({Identity(path_), path_}).ok());
    EXPECT_EQ(find(device_.number), device_.path);
  };
  std::thread(hidden).join();
}

TEST_F(LoopFindTest, KnowsThatAFileIsNotAttachedWithoutALookAtAnyDeviceIfNobodyElseHasItOpen) {
  const std::string free = Make("free");
  const auto find = [&](const std::string& path) {
    ASSERT_EQ(unshare(CLONE_NEWNS), 0);
    ASSERT_EQ(mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr), 0);
    ASSERT_EQ(mount("tmpfs", "/sys", "tmpfs", 0, nullptr), 0);
    ASSERT_VALUE(fd, OpenPath(path, O_RDONLY));
    ASSERT_VALUE(found, FindLoop({Identity(path), path, fd.get()}));
    EXPECT_FALSE(found.has_value());
    const UniqueFd reader = ValueOf(OpenPath(path, O_RDONLY));
    EXPECT_FALSE(FindLoop({Identity(path), path, fd.get()}).ok());
  };
  std::thread(find, free).join();
  for (const bool read_only : {false, true}) {
    ASSERT_VALUE(attached, AttachLoop(free, read_only, ""));
    ASSERT_VALUE(fd, OpenPath(free, O_RDONLY));
    ASSERT_VALUE(found, FindLoop({Identity(free), free, fd.get()}));
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->path, attached.device.path);
    fd.Close();
    EXPECT_TRUE(DetachWhenFree(free));
  }
}

TEST_F(LoopTest, AsksWhetherAFileIsAttachedWhileOthersOpenItWithoutAnyFailureOrSignal) {
  const std::string path = Make("volume");
  std::atomic<bool> ended = false;
  std::thread opener([&] {
    while (!ended) EXPECT_OK(OpenPath(path, O_RDWR | O_NONBLOCK).status());
  });
  ASSERT_VALUE(fd, OpenPath(path, O_RDONLY));
  for (int look = 0; look < 2000; look++) {
    ASSERT_VALUE(found, FindLoop({Identity(path), path, fd.get()}));
    EXPECT_FALSE(found.has_value());
  }
  ended = true;
  opener.join();
}

TEST_F(LoopFindTest, FindsAFileUnderAnotherNameByProbingEveryDevice) {
  const std::string link = At("link");
  const std::string hard_link = At("hard link");
  EXPECT_TRUE(symlink(path_.c_str(), link.c_str()) == 0 &&
              ::link(path_.c_str(), hard_link.c_str()) == 0);
  for (const std::string& name : {link, hard_link, At("./volume"), std::string()}) {
    ASSERT_VALUE(found, FindLoop({Identity(path_), name}));
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->path, device_.path);
  }
}

TEST_F(LoopFindTest, IgnoresADeviceOfAFileHiddenUnderAMountAtTheSamePath) {
  const std::string directory = At("covered");
  EXPECT_TRUE(RunCommand("mkdir " + directory));
  const std::string path = Make("covered/volume");
  ASSERT_VALUE(below, AttachLoop(path, false, ""));
  ASSERT_TRUE(RunCommand("mount -t tmpfs tmpfs " + directory));
  MakeFile(path, kSize);
  EXPECT_FALSE(Find(path).has_value());
  const AttachedLoop above = ValueOf(AttachLoop(path, false, ""));
  EXPECT_TRUE(above.created && DevicePath(path) == above.device.path);
  EXPECT_TRUE(DetachWhenFree(path));
  EXPECT_TRUE(RunCommand("umount " + directory));
  EXPECT_EQ(DevicePath(path), below.device.path);
}

}  // namespace
}  // namespace blockdelta::test
