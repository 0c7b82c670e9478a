// The source volume of a snapshot, held open after its identity is checked.
#ifndef BLOCKDELTA_NATIVE_DEVICE_SOURCE_VOLUME_H_
#define BLOCKDELTA_NATIVE_DEVICE_SOURCE_VOLUME_H_

#include <optional>
#include <string>
#include <vector>

#include "native/device/freeze.h"
#include "native/device/take_snapshots.h"

namespace blockdelta {

class SourceVolume {
 public:
  // ESTALE if the loop device has another backing file. EBUSY of flock if another process holds an
  // exclusive flock on the loop device, as a tool does that must not be interrupted: the data it
  // has written so far is not a consistent file system. No such tool can start until the source is
  // closed.
  static Result<SourceVolume> Open(const NewSnapshotFile& member);

  int fd() const { return file_.get(); }
  const std::string& path() const { return path_; }
  uint64_t size_bytes() const { return size_bytes_; }
  // 0 if the volume is not attached.
  dev_t device() const { return device_; }
  bool MustFreeze() const { return freeze_path_.has_value(); }
  // REQUIRES: MustFreeze().
  const std::string& mount_point() const { return *freeze_path_; }
  // Attached without a file system to freeze, so nothing pauses its writers.
  bool IsRaw() const { return device_ != 0 && !MustFreeze(); }

  // Freezes the file system on the loop device and no other: if it was unmounted meanwhile, the
  // path leads to the underlying file system, possibly the one that the clone is written to.
  // REQUIRES: MustFreeze().
  Result<Freeze> BeginFreeze(Guardian* guardian) const;
  // Writes back the file system's dirty data, so that the freeze is short. Fails if some data could
  // not be written: it is lost, and a snapshot would lack it. REQUIRES: MustFreeze().
  Status SyncFileSystem() const;
  // Flushes everything written so far to the backing file.
  Status Flush() const;

 private:
  SourceVolume() = default;
  Result<UniqueFd> OpenMount() const;
  Status OpenLoopOf(const NewSnapshotFile& member, const struct stat& file);

  UniqueFd file_;
  std::string path_;
  uint64_t size_bytes_ = 0;
  UniqueFd loop_;
  std::string loop_path_;
  dev_t device_ = 0;
  std::optional<std::string> freeze_path_;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_SOURCE_VOLUME_H_
