// Takes snapshots of volumes, and clones volumes: flushes each volume, clones its file while
// nothing changes it, and publishes the clone as a snapshot or a new volume.
//
// Several volumes are snapshotted at one point in time T: every clone contains all writes that were
// acknowledged before T, and none that began after it. A volume with a frozen file system
// (standstill.h) and a volume that is not attached cannot change. A raw device can: raw devices are
// cloned one after the other, T is the clone of the last one, and the write counters of the others
// show whether they were written to between their own clone and T. If so, the clones are discarded
// and the group is retried with the busy device last.
//
// The file of a volume with a frozen file system is cloned ahead of the freeze on XFS
// (pre_clone.h), and after it on btrfs (copied_sources.h). Any other file is cloned by one FICLONE,
// which is atomic.
#ifndef BLOCKDELTA_NATIVE_DEVICE_TAKE_SNAPSHOTS_H_
#define BLOCKDELTA_NATIVE_DEVICE_TAKE_SNAPSHOTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "native/device/files.h"
#include "native/device/freeze.h"

namespace blockdelta {

// Failure code: two or more raw devices are continuously written to. The path is the source of one
// of them.
inline constexpr char kSnapshotBusy[] = "SNAPSHOT_BUSY";

struct NewSnapshotFile {
  std::string source_path;
  NewFileNames names;
  // The loop device of the source, if it is attached.
  std::optional<std::string> loop_path;
  // The mount point of the file system on that loop device, if it must be frozen.
  std::optional<std::string> freeze_path;
};

// What a call may use beside the pool.
struct SnapshotAids {
  // Where a copy of the volumes' subvolume may be made during the call (subvolume.h). A killed
  // process leaves the copy, and the next call replaces it. Nothing if no copy may be made.
  std::optional<std::string> copy_path;
  FreezeOptions freezing = {};
};

struct TakenSnapshots {
  uint64_t taken_at_ns;  // CLOCK_REALTIME.
  uint64_t frozen_ns;    // The longest freeze; 0 if no file system was frozen.
};

// Takes snapshots: files of mode 0400, immutable and sealed. All or nothing: after a failure every
// file system is thawed and no file is left. EEXIST if a final name exists; ESTALE if a loop device
// has another backing file or a mount point has another file system; EINVAL for an empty list or
// duplicate names; SNAPSHOT_BUSY, SNAPSHOT_THAWED, SNAPSHOT_UNCOUNTED. ETIMEDOUT of syncfs if the
// deadline passed before the freeze; of FIFREEZE or FITHAW if a freeze took longer than it may; of
// fsync or FICLONE, with the path of a source, if the work under a freeze did; of FICLONE also if
// the deadline passed before the clones had their names. A file system that another program has
// frozen stays frozen.
Result<TakenSnapshots> TakeSnapshots(const std::vector<NewSnapshotFile>& members,
                                     SnapshotAids aids = {});

// Clones a volume into a new volume: mode 0600, extended with zeros to `size_bytes`. EINVAL if the
// source is larger; otherwise the failures of TakeSnapshots.
Result<TakenSnapshots> CloneVolume(const NewSnapshotFile& member, uint64_t size_bytes,
                                   SnapshotAids aids = {});

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_TAKE_SNAPSHOTS_H_
