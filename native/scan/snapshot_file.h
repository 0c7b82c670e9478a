// An open snapshot file of verified identity, and the checks that it stays unchanged.
//
// Knows how to detect that a file may have changed; does not read extents.
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
  // SCAN_MUTABLE if it does not match its seal (base/seal.h). The open file keeps its blocks from
  // being reused even if it is unlinked.
  static Result<SnapshotFile> Open(SnapshotIdentity identity);

  // SCAN_MUTABLE unless the file has FS_IMMUTABLE_FL. SCAN_UNSUPPORTED if its data is on an XFS
  // realtime device, which has an address space of its own.
  Status CheckFrozen() const;
  // SCAN_MUTABLE if the file has changed since it was opened. Clearing the flag, moving extents and
  // setting the flag again changes the change time.
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
