// Snapshots of attached, mounted and broken volumes.
#include "native/device/cut.h"

#include <sys/stat.h>
#include <unistd.h>

#include <memory>

#include "native/device/freeze.h"
#include "native/device/loop_attach.h"
#include "test/native/harness.h"
#include "test/native/pool.h"

namespace blockdelta {
namespace {

constexpr uint64_t kSize = 64 << 20;

// A volume in a pool, on a loop device, with a mounted ext4.
struct Volume {
  static std::unique_ptr<Volume> Make() {
    std::unique_ptr<Volume> volume(new Volume());
    volume->pool = test::Pool::Make("xfs");
    if (volume->pool == nullptr) return nullptr;
    volume->path = volume->pool->At("volume");
    volume->mount = volume->directory.At("mount");
    EXPECT_OK(CreateSparseFile({volume->path + ".tmp", volume->path}, kSize));
    Result<AttachedLoop> attached = AttachLoop(volume->path, false, "");
    if (!EXPECT_OK(attached)) return nullptr;
    volume->loop = attached->device.path;
    EXPECT(test::RunCommand("mkfs.ext4 -q " + volume->loop + " && mkdir " + volume->mount +
                            " && mount " + volume->loop + " " + volume->mount));
    return volume;
  }
  ~Volume() {
    test::RunCommand("umount " + mount);
    if (pool != nullptr) static_cast<void>(DetachLoop(path));
  }

  CutRequest Request(const std::string& name) const {
    return {path, {pool->At(name + ".tmp"), pool->At(name)}, loop, mount};
  }
  // Whether the mounted file system can be written to, found out without waiting for ever.
  bool IsThawed() const {
    Result<bool> thawed = ThawPath(mount);
    return EXPECT_OK(thawed) && !*thawed;
  }

  std::unique_ptr<test::Pool> pool;
  test::TempDirectory directory;
  std::string path;
  std::string loop;
  std::string mount;
};

TEST("a snapshot of a mounted volume is clean, frozen and has what was just written") {
  const auto volume = Volume::Make();
  if (volume == nullptr) return;
  test::WriteBytes(volume->mount + "/file", 0, {1, 2, 3});
  Result<CutOutcome> outcome = CutSnapshot(volume->Request("snapshot"));
  if (!EXPECT_OK(outcome)) return;
  EXPECT(outcome->frozen_ns > 0);
  EXPECT(ClockNs(CLOCK_REALTIME) - outcome->cut_time_ns < 60'000'000'000);
  EXPECT(volume->IsThawed());
  const std::string snapshot = volume->pool->At("snapshot");
  struct stat state = {};
  EXPECT(stat(snapshot.c_str(), &state) == 0);
  EXPECT_EQ(state.st_mode & 07777u, 0400u);
  EXPECT((*StateOfFile(snapshot))->immutable);
  EXPECT(!test::Exists(snapshot + ".tmp"));
  const std::string other = volume->directory.At("other");
  EXPECT(test::RunCommand("mkdir " + other + " && mount -o ro,loop " + snapshot + " " + other));
  EXPECT(test::ReadBytes(other + "/file") == std::vector<uint8_t>({1, 2, 3}));
  EXPECT(test::RunCommand("umount " + other));
}

TEST("a snapshot of an attached volume has what was written to the device") {
  const auto volume = Volume::Make();
  if (volume == nullptr) return;
  EXPECT(test::RunCommand("umount " + volume->mount));
  test::WriteBytes(volume->loop, kSize - 4096, std::vector<uint8_t>(4096, 9));
  CutRequest request = volume->Request("snapshot");
  request.freeze_path.reset();
  Result<CutOutcome> outcome = CutSnapshot(request);
  if (!EXPECT_OK(outcome)) return;
  EXPECT_EQ(outcome->frozen_ns, 0u);
  const std::vector<uint8_t> bytes = test::ReadBytes(volume->pool->At("snapshot"));
  EXPECT(bytes.size() == kSize && bytes[kSize - 4096] == 9 && bytes[kSize - 1] == 9);
}

TEST("a snapshot is never replaced") {
  const auto volume = Volume::Make();
  if (volume == nullptr) return;
  EXPECT_OK(CutSnapshot(volume->Request("snapshot")));
  EXPECT_CODE(CutSnapshot(volume->Request("snapshot")), "EEXIST");
  EXPECT((*StateOfFile(volume->pool->At("snapshot")))->immutable);
}

TEST("a file system that is frozen already is left to whoever froze it") {
  const auto volume = Volume::Make();
  if (volume == nullptr) return;
  EXPECT(test::RunCommand("fsfreeze -f " + volume->mount));
  EXPECT_CODE(CutSnapshot(volume->Request("snapshot")), "EBUSY");
  EXPECT(!test::Exists(volume->pool->At("snapshot.tmp")));
  Result<bool> thawed = ThawPath(volume->mount);
  EXPECT(EXPECT_OK(thawed) && *thawed);
}

TEST("only the file system on the volume's own device is ever frozen") {
  const auto volume = Volume::Make();
  if (volume == nullptr) return;
  CutRequest request = volume->Request("snapshot");
  // The pool itself: with it frozen the clone would wait for ever.
  request.freeze_path = volume->pool->mount_point();
  EXPECT_CODE(CutSnapshot(request), "ESTALE");
  // A mount point that nothing is mounted on any more.
  EXPECT(test::RunCommand("umount " + volume->mount));
  EXPECT_CODE(CutSnapshot(volume->Request("snapshot")), "ESTALE");
  request.loop_path.reset();
  EXPECT_CODE(CutSnapshot(request), "EINVAL");
  EXPECT(!test::Exists(volume->pool->At("snapshot.tmp")));
}

TEST("a loop device that has another file by now is not taken for the volume's") {
  const auto volume = Volume::Make();
  if (volume == nullptr) return;
  CutRequest request = volume->Request("snapshot");
  request.source_path = volume->pool->At("other-volume");
  EXPECT_OK(CreateSparseFile({request.source_path + ".tmp", request.source_path}, kSize));
  EXPECT_CODE(CutSnapshot(request), "ESTALE");
}

TEST("when the clone fails the file system is thawed and nothing is left") {
  const auto volume = Volume::Make();
  if (volume == nullptr) return;
  CutRequest request = volume->Request("snapshot");
  // On another file system: cloning into it cannot work.
  request.names = {volume->directory.At("snapshot.tmp"), volume->directory.At("snapshot")};
  EXPECT_CODE(CutSnapshot(request), "EXDEV");
  EXPECT(volume->IsThawed());
  EXPECT(!test::Exists(request.names.temporary) && !test::Exists(request.names.final));
}

}  // namespace
}  // namespace blockdelta
