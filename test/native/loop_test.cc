// Attaching and detaching real loop devices, with others in the way.
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
#include "test/native/harness.h"
#include "test/native/loop_bench.h"

namespace blockdelta {
namespace {

TEST("a file is attached once, whoever asks again") {
  Bench bench;
  if (!bench.ready()) return;
  const std::string path = bench.MakeFile("volume", kSize + 4096);
  Result<AttachedLoop> first = AttachLoop(path, false, "a label");
  if (!EXPECT_OK(first)) return;
  EXPECT(first->created && !first->device.read_only);
  EXPECT_EQ(first->device.size_bytes, kSize + 4096);
  EXPECT(first->device.backing == Identity(path));
  Result<AttachedLoop> second = AttachLoop(path, false, "another label");
  if (!EXPECT_OK(second)) return;
  EXPECT(!second->created);
  EXPECT_EQ(second->device.path, first->device.path);
  EXPECT_CODE(AttachLoop(path, true, ""), "EEXIST");
  EXPECT(Detaches(path));
  EXPECT(!Find(path).has_value());
  EXPECT(!*DetachLoop(path));
}

TEST("the label and direct I/O reach the kernel") {
  Bench bench;
  if (!bench.ready()) return;
  const std::string label(100, 'x');
  Result<AttachedLoop> attached = AttachLoop(bench.MakeFile("volume"), false, label);
  if (!EXPECT_OK(attached)) return;
  Result<UniqueFd> fd = OpenLoop(attached->device.number, O_RDONLY);
  if (!EXPECT_OK(fd)) return;
  Result<struct loop_info64> info = LoopStatus(fd->get(), "");
  if (!EXPECT_OK(info)) return;
  EXPECT_EQ(std::string(reinterpret_cast<char*>(info->lo_file_name)), label.substr(0, 63));
  EXPECT_EQ(attached->device.direct_io, (info->lo_flags & LO_FLAGS_DIRECT_IO) != 0);
}

TEST("a device attached read-only refuses writes") {
  Bench bench;
  if (!bench.ready()) return;
  const std::string path = bench.MakeFile("volume");
  Result<AttachedLoop> attached = AttachLoop(path, true, "");
  if (!EXPECT_OK(attached)) return;
  EXPECT(attached->device.read_only && attached->device.attached_read_only);
  EXPECT(!test::RunCommand("dd if=/dev/zero count=1 of=" + attached->device.path));
  EXPECT_CODE(AttachLoop(path, false, ""), "EEXIST");
}

TEST("many threads that attach one file get one device") {
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
  EXPECT(!devices[0].empty());
}

TEST("threads that attach and detach files of their own do not disturb each other") {
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

TEST("the list names every attached file") {
  Bench bench;
  if (!bench.ready()) return;
  const std::string path = bench.MakeFile("volume");
  if (!EXPECT_OK(AttachLoop(path, false, ""))) return;
  Result<std::vector<LoopDevice>> devices = ListLoops();
  if (!EXPECT_OK(devices)) return;
  int times = 0;
  for (const LoopDevice& device : *devices) times += device.backing == Identity(path) ? 1 : 0;
  EXPECT_EQ(times, 1);
}

TEST("a device is found by the identity of its file and not by its path") {
  Bench bench;
  if (!bench.ready()) return;
  const std::string path = bench.MakeFile("volume");
  const std::string moved = bench.At("moved");
  if (!EXPECT_OK(AttachLoop(path, false, ""))) return;
  EXPECT(rename(path.c_str(), moved.c_str()) == 0);
  bench.MakeFile("volume");  // Another file takes the name.
  EXPECT(!Find(path).has_value());
  EXPECT(!*DetachLoop(path));
  EXPECT(Find(moved).has_value());
  EXPECT(Detaches(moved));
}

TEST("nothing is detached from a file that is missing") {
  Bench bench;
  if (!bench.ready()) return;
  Result<bool> detached = DetachLoop(bench.At("nowhere"));
  EXPECT(detached.ok() && !*detached);
}

TEST("a mounted device stays attached") {
  Bench bench;
  if (!bench.ready()) return;
  const std::string path = bench.MakeFile("volume");
  Result<AttachedLoop> attached = AttachLoop(path, false, "");
  if (!EXPECT_OK(attached)) return;
  const std::string mount = bench.At("mount");
  EXPECT(test::RunCommand("mkfs.ext4 -q " + attached->device.path + " && mkdir " + mount +
                          " && mount " + attached->device.path + " " + mount));
  EXPECT_CODE(DetachLoop(path), "EBUSY");
  EXPECT(test::RunCommand("touch " + mount + "/file && sync " + mount + "/file"));
  EXPECT(test::RunCommand("umount " + mount));
  EXPECT(Detaches(path));
}

TEST("a device that somebody keeps open stays attached for good") {
  Bench bench;
  if (!bench.ready()) return;
  const std::string path = bench.MakeFile("volume");
  Result<AttachedLoop> attached = AttachLoop(path, false, "");
  if (!EXPECT_OK(attached)) return;
  {
    Result<UniqueFd> opener = OpenLoop(attached->device.number, O_RDONLY);
    EXPECT_CODE(DetachLoop(path), "EBUSY");
  }
  // Its last close by others must not detach it now.
  SleepMs(50);
  EXPECT(Find(path).has_value());
  EXPECT(Detaches(path));
}

TEST("a device that somebody has open for a moment is waited for") {
  Bench bench;
  if (!bench.ready()) return;
  const std::string path = bench.MakeFile("volume");
  Result<AttachedLoop> attached = AttachLoop(path, false, "");
  if (!EXPECT_OK(attached)) return;
  Result<UniqueFd> opener = OpenLoop(attached->device.number, O_RDONLY);
  std::thread closer([&opener] {
    SleepMs(300);
    opener->Close();
  });
  EXPECT(Detaches(path));
  closer.join();
  EXPECT(!Find(path).has_value());
}

TEST("a device left half detached by a killed call is kept when its file is attached again") {
  Bench bench;
  if (!bench.ready()) return;
  const std::string path = bench.MakeFile("volume");
  Result<AttachedLoop> attached = AttachLoop(path, false, "");
  if (!EXPECT_OK(attached)) return;
  Result<UniqueFd> opener = OpenLoop(attached->device.number, O_RDONLY);
  {
    Result<UniqueFd> killed = OpenLoop(attached->device.number, O_RDONLY);
    EXPECT_OK(Ioctl(killed->get(), LOOP_CLR_FD, 0ul, "LOOP_CLR_FD", ""));
  }
  EXPECT_OK(AttachLoop(path, false, ""));
  opener->Close();
  SleepMs(50);
  EXPECT(Find(path).has_value());
}

TEST("a device that is cleared but not let go yet hinders nobody") {
  Bench bench;
  if (!bench.ready()) return;
  Result<AttachedLoop> attached = AttachLoop(bench.MakeFile("volume"), false, "");
  if (!EXPECT_OK(attached)) return;
  Result<UniqueFd> opener = OpenLoop(attached->device.number, O_RDONLY);
  EXPECT_OK(Ioctl(opener->get(), LOOP_CLR_FD, 0ul, "LOOP_CLR_FD", ""));
  EXPECT_OK(ListLoops());
  EXPECT_OK(AttachLoop(bench.MakeFile("other"), false, ""));
}

TEST("a file that others attached twice is detached from both devices") {
  Bench bench;
  if (!bench.ready()) return;
  const std::string path = bench.MakeFile("volume");
  EXPECT(test::RunCommand("losetup -f " + path + " && losetup -f " + path));
  EXPECT(Detaches(path));
  EXPECT(!Find(path).has_value());
}

TEST("what made one volume read-only does not make the next one so") {
  Bench bench;
  if (!bench.ready()) return;
  const std::string path = bench.MakeFile("volume");
  Result<AttachedLoop> attached = AttachLoop(path, false, "");
  if (!EXPECT_OK(attached)) return;
  EXPECT_OK(SetDeviceReadOnly(attached->device.path, true));
  Result<AttachedLoop> again = AttachLoop(path, false, "");
  if (EXPECT_OK(again)) EXPECT(again->device.read_only && !again->device.attached_read_only);
  // Somebody else detaches it, so that the flag stays on the number.
  EXPECT(test::RunCommand("losetup -d " + attached->device.path));
  Result<AttachedLoop> next = AttachLoop(bench.MakeFile("next"), false, "");
  if (EXPECT_OK(next)) EXPECT(!next->device.read_only);
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
    if (!EXPECT_OK(CreateSparseFile({path + ".tmp", path}, kSize))) return false;
    Result<AttachedLoop> attached = AttachLoop(path, false, "");
    if (!EXPECT_OK(attached)) return false;
    number_ = attached->device.number;
    return EXPECT(test::RunCommand("xfs_io -x -c shutdown " + pool_->mount_point()));
  }
  ~DeadLoop() {
    if (!number_.has_value()) return;
    Result<UniqueFd> fd = OpenLoop(*number_, O_RDONLY);
    if (EXPECT_OK(fd)) EXPECT_OK(Ioctl(fd->get(), LOOP_CLR_FD, 0ul, "LOOP_CLR_FD", ""));
  }

  uint32_t number() const { return *number_; }

 private:
  std::unique_ptr<test::Pool> pool_;
  std::optional<uint32_t> number_;
};

TEST("a device whose file system has died hinders nobody else") {
  Bench bench;
  if (!bench.ready()) return;
  DeadLoop dead;
  if (!dead.Make()) return;
  {
    Result<UniqueFd> fd = OpenLoop(dead.number(), O_RDONLY);
    EXPECT_CODE(DescribeLoop(fd->get()), "EIO");
  }
  const std::string path = bench.MakeFile("volume");
  EXPECT(!Find(path).has_value());
  if (!EXPECT_OK(AttachLoop(path, false, ""))) return;
  EXPECT(Find(path).has_value());
  EXPECT(Detaches(path));
  EXPECT(!Find(path).has_value());
}

TEST("only regular files are attached") {
  Bench bench;
  if (!bench.ready()) return;
  EXPECT_CODE(AttachLoop(bench.At("."), true, ""), "EINVAL");
  EXPECT_CODE(AttachLoop(bench.At("nowhere"), true, ""), "ENOENT");
}

}  // namespace
}  // namespace blockdelta
