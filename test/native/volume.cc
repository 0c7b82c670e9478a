#include "test/native/volume.h"

#include <gtest/gtest.h>

#include "native/device/freeze.h"
#include "native/device/loop_attach.h"
#include "test/native/status_assertions.h"

namespace blockdelta::test {

bool DetachWhenFree(const std::string& path) {
  const uint64_t deadline = ClockNs(CLOCK_MONOTONIC) + 30'000'000'000;
  for (;;) {
    Result<bool> detached = DetachLoop(path);
    if (detached.ok() || ClockNs(CLOCK_MONOTONIC) >= deadline) {
      EXPECT_OK(detached) << path;
      return detached.ok() && *detached;
    }
    SleepMs(20);
  }
}

std::unique_ptr<Volume> Volume::Make(const Pool& pool, const std::string& name,
                                     const std::string& kind, uint64_t size_bytes) {
  std::unique_ptr<Volume> volume(new Volume());
  volume->pool_ = pool.mount_point();
  const std::string path = pool.At(name);
  const Status created = CreateSparseFile({path + ".tmp", path}, size_bytes);
  EXPECT_OK(created);
  if (!created.ok()) return nullptr;
  volume->path_ = path;
  Result<AttachedLoop> attached = AttachLoop(path, false, "");
  EXPECT_OK(attached);
  if (!attached.ok()) return nullptr;
  volume->loop_ = attached->device.path;
  if (kind.empty()) return volume;
  const std::string mount = volume->directory_.At("mount");
  const bool made = RunCommand("mkfs." + kind + " -q " + volume->loop_ + " && mkdir " + mount +
                               " && mount " + volume->loop_ + " " + mount);
  EXPECT_TRUE(made);
  if (!made) return nullptr;
  volume->mount_ = mount;
  return volume;
}

Volume::~Volume() {
  if (!mount_.empty()) RunCommand("umount " + mount_ + " || umount -l " + mount_);
  if (!path_.empty()) DetachWhenFree(path_);
}

NewSnapshotFile Volume::Member(const std::string& snapshot) const {
  NewSnapshotFile member;
  member.source_path = path_;
  member.names = {pool_ + "/" + snapshot + ".tmp", pool_ + "/" + snapshot};
  member.loop_path = loop_;
  if (!mount_.empty()) member.freeze_path = mount_;
  return member;
}

bool Volume::Unmount() {
  const bool unmounted = RunCommand("umount " + mount_);
  if (unmounted) mount_.clear();
  return unmounted;
}

bool Volume::IsThawed() const {
  Result<bool> thawed = ThawPath(mount_);
  EXPECT_OK(thawed);
  return thawed.ok() && !*thawed;
}

}  // namespace blockdelta::test
