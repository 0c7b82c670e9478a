// A volume in a pool, on a loop device, raw or with a mounted file system.
#ifndef BLOCKDELTA_TEST_NATIVE_VOLUME_H_
#define BLOCKDELTA_TEST_NATIVE_VOLUME_H_

#include <memory>
#include <string>

#include "native/device/take_snapshots.h"
#include "test/native/pool.h"

namespace blockdelta::test {

// Detaches the file from its devices; false if there was none. A tool that has one open, or another
// mount namespace with a copy of a mount that was just unmounted, holds it for a moment: tries
// again, and fails the test if the device is still attached after half a minute.
bool DetachWhenFree(const std::string& path);

class Volume {
 public:
  // `kind`: "ext4", "xfs" or "btrfs", made and mounted; "" for a raw device. Null, with a failed
  // expectation, if that does not work.
  static std::unique_ptr<Volume> Make(const Pool& pool, const std::string& name,
                                      const std::string& kind, uint64_t size_bytes);
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
  Volume() = default;

  TempDirectory directory_;
  std::string pool_;
  std::string path_;
  std::string loop_;
  std::string mount_;  // Empty: raw, or unmounted.
};

}  // namespace blockdelta::test

#endif  // BLOCKDELTA_TEST_NATIVE_VOLUME_H_
