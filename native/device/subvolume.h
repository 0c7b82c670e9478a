// Subvolumes of btrfs: the one that holds the volumes of a pool, and copies of it.
//
// A copy is a read-only snapshot of a subvolume. Making one takes the same time for any number of
// extents. A copy has everything that was written to the files, synced or not, except direct writes
// that are under way. Knows files only by name.
#ifndef BLOCKDELTA_NATIVE_DEVICE_SUBVOLUME_H_
#define BLOCKDELTA_NATIVE_DEVICE_SUBVOLUME_H_

#include <string>
#include <utility>

#include "native/device/files.h"

namespace blockdelta {

// Makes an empty subvolume of mode 0700, durably, and removes an empty left-over with the temporary
// name. False if the file system is not btrfs or the final name exists; nothing is made then.
Result<bool> MakeSubvolume(const NewFileNames& names);

// Whether the open directory is the top of a btrfs subvolume.
Result<bool> IsSubvolume(int fd, const std::string& path);

// A copy of a subvolume; removed on destruction.
class SubvolumeCopy {
 public:
  // `source_fd` is open for reading on the top directory of the subvolume; `path` is on the same
  // file system. EEXIST if the path exists.
  static Result<SubvolumeCopy> Make(int source_fd, std::string path);
  SubvolumeCopy(SubvolumeCopy&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  SubvolumeCopy& operator=(SubvolumeCopy&&) = delete;
  ~SubvolumeCopy();

  // Opens the copy of a file in the top directory for reading. ESTALE if it is not the copy of the
  // regular file with this inode number.
  Result<UniqueFd> Open(const std::string& name, uint64_t inode) const;

 private:
  explicit SubvolumeCopy(std::string path) : path_(std::move(path)) {}

  std::string path_;  // Empty after a move.
};

// Removes a copy that a killed process left. False if there is none. EINVAL if the path is anything
// but a read-only subvolume.
Result<bool> RemoveSubvolumeCopy(const std::string& path);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_SUBVOLUME_H_
