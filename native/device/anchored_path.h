// Paths anchored at a descriptor of their parent directory, so that all checks and operations act
// on the same place whatever is renamed or linked meanwhile.
//
// Callers pass resolved paths. A path that contains a symbolic link fails with ELOOP and nothing is
// done.
#ifndef BLOCKDELTA_NATIVE_DEVICE_ANCHORED_PATH_H_
#define BLOCKDELTA_NATIVE_DEVICE_ANCHORED_PATH_H_

#include <cstdint>
#include <optional>
#include <string>

#include "native/base/posix.h"

namespace blockdelta {

// Opens a path without following any symbolic link. Needs Linux 5.6 (openat2).
Result<UniqueFd> OpenResolved(const std::string& path, int flags);

// The id, as in mountinfo, of the mount that contains an open file. Does not access the file
// system, which may have shut down.
Result<uint64_t> MountIdOf(int fd, const std::string& path);

// A name in a directory that is held open.
class AnchoredPath {
 public:
  static Result<AnchoredPath> Open(const std::string& path);

  const std::string& path() const { return path_; }
  // Opens the top layer at this path (O_PATH); ENOENT if there is nothing. The descriptor keeps a
  // mount busy.
  Result<UniqueFd> OpenTop() const;
  // The mount id of the top layer at this path.
  Result<uint64_t> TopMountId() const;
  Result<bool> IsMountPoint() const;
  // Creates a directory or an empty file. False if the path exists.
  Result<bool> Make(bool directory) const;
  // Removes an empty directory or regular file. False if the path does not exist. ENOTEMPTY for
  // anything with content or of another type, EBUSY for a mount point.
  Result<bool> Remove() const;
  // A path for system calls without a descriptor argument. Valid for the lifetime of this object.
  std::string DescriptorPath() const;

 private:
  AnchoredPath(UniqueFd parent, std::string name, std::string path)
      : parent_(std::move(parent)), name_(std::move(name)), path_(std::move(path)) {}

  UniqueFd parent_;
  std::string name_;
  std::string path_;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_ANCHORED_PATH_H_
