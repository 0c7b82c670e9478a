// Places in the file system tree, held by the descriptor of their parent directory: what is found
// out about one, and what is done to it, is of the same place, whatever is renamed or linked
// meanwhile.
//
// Paths are given resolved. One that has a symbolic link in it by now is ELOOP: it leads elsewhere
// than it did, and nothing is done there.
#ifndef BLOCKDELTA_NATIVE_DEVICE_PATH_DESCRIPTOR_H_
#define BLOCKDELTA_NATIVE_DEVICE_PATH_DESCRIPTOR_H_

#include <cstdint>
#include <optional>
#include <string>

#include "native/base/posix.h"

namespace blockdelta {

// Opens what is at the path without following any symbolic link (O_PATH). Needs Linux 5.6.
Result<UniqueFd> OpenPlace(const std::string& path, int flags);

// The mount that an open file lies in, as mountinfo numbers it. Does not ask the file system, which
// may have shut down.
Result<uint64_t> MountIdOf(int fd, const std::string& path);

// A name in a directory that is held open.
class HeldPlace {
 public:
  static Result<HeldPlace> Open(const std::string& path);

  const std::string& path() const { return path_; }
  // What is there now, the top layer of what is mounted; ENOENT if nothing is. It keeps a mount
  // busy.
  Result<UniqueFd> OpenHere() const;
  // Of what is there now.
  Result<uint64_t> MountIdHere() const;
  // Whether something is mounted there.
  Result<bool> IsMountPoint() const;
  // False: it is there already, and of that kind, empty, and nothing is mounted on it. Else EEXIST.
  Result<bool> Make(bool directory) const;
  // Removes an empty directory or regular file. False: nothing is there. ENOTEMPTY for what has
  // content or is of another kind, EBUSY for a mount point.
  Result<bool> Remove() const;
  // A path of the place for calls that take no descriptor. Valid while this lives.
  std::string DescriptorPath() const;

 private:
  HeldPlace(UniqueFd parent, std::string name, std::string path)
      : parent_(std::move(parent)), name_(std::move(name)), path_(std::move(path)) {}

  UniqueFd parent_;
  std::string name_;
  std::string path_;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_PATH_DESCRIPTOR_H_
