// An open snapshot file that is what its caller takes it for, and the evidence that it stays so.
//
// Knows how to tell whether a file can have changed; does not read extents.
#ifndef BLOCKDELTA_NATIVE_SCAN_SNAPSHOT_FILE_H_
#define BLOCKDELTA_NATIVE_SCAN_SNAPSHOT_FILE_H_

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "native/base/posix.h"

namespace blockdelta {

struct SnapshotIdentity {
  std::string path;
  uint64_t device;  // st_dev
  uint64_t inode;   // st_ino
  uint64_t size_bytes;
};

class SnapshotFile {
 public:
  // Fails with SCAN_REPLACED if the path is not a regular file of this identity and size, with
  // SCAN_MUTABLE if its seal is broken (base/seal.h). While this lives the file is open, so its
  // blocks cannot be given to others even if it is unlinked.
  static Result<SnapshotFile> Open(SnapshotIdentity identity);

  // SCAN_MUTABLE unless the file carries FS_IMMUTABLE_FL. SCAN_UNSUPPORTED if its data lie on an
  // XFS realtime device: those addresses are counted apart.
  Status CheckFrozen() const;
  // SCAN_MUTABLE if anything about the file has changed since it was opened: clearing the flag,
  // moving extents by hand and setting it again leaves a new change time.
  Status CheckUnchanged() const;

  int fd() const { return fd_.get(); }
  const std::string& path() const { return identity_.path; }
  uint64_t device() const { return identity_.device; }
  uint64_t size_bytes() const { return identity_.size_bytes; }

 private:
  SnapshotFile(SnapshotIdentity identity, UniqueFd fd, const struct stat& opened)
      : identity_(std::move(identity)), fd_(std::move(fd)), opened_(opened) {}

  SnapshotIdentity identity_;
  UniqueFd fd_;
  struct stat opened_;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_SCAN_SNAPSHOT_FILE_H_
