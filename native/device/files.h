// Volume and snapshot files: made under a temporary name, made durable, then given their name.
//
// Whoever is killed on the way leaves at most a file under the temporary name, and the next call
// with that name removes it. Knows no loop devices and no extents.
#ifndef BLOCKDELTA_NATIVE_DEVICE_FILES_H_
#define BLOCKDELTA_NATIVE_DEVICE_FILES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "native/base/posix.h"

namespace blockdelta {

// Where a new file is made and what it will be called; both in one directory.
struct NewFileNames {
  std::string temporary;
  std::string final;
};

// A file under its temporary name, open for reading and writing, mode 0600. Removed again unless it
// is given its final name.
class NewFile {
 public:
  // EEXIST if there is a file of the final name. A left-over of the temporary name is removed.
  static Result<NewFile> Create(NewFileNames names);
  NewFile(NewFile&&) = default;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  int fd() const { return fd_.get(); }
  const std::string& temporary() const { return names_.temporary; }
  const std::string& final() const { return names_.final; }
  bool published() const { return published_; }

  // fsync and rename; the directory is the caller's to sync. Never replaces a file: EEXIST.
  Status Publish();

 private:
  NewFile(NewFileNames names, UniqueFd fd) : names_(std::move(names)), fd_(std::move(fd)) {}

  NewFileNames names_;
  UniqueFd fd_;
  bool published_ = false;
};

struct FileState {
  uint64_t device;
  uint64_t inode;
  uint64_t size_bytes;
  uint64_t allocated_bytes;
  bool immutable;
  bool regular;
  // False: it has a seal (base/seal.h) and is not what that says.
  bool matches_seal;
};

Status CreateSparseFile(NewFileNames names, uint64_t size_bytes);
// A writable clone of a frozen file, grown with zeros to `size_bytes`. EINVAL if the source is
// larger; SCAN_MUTABLE if it is no immutable regular file, its seal is broken, or it was changed
// meanwhile.
Status CloneFile(const std::string& source_path, NewFileNames names, uint64_t size_bytes);
// Grows a file, never shrinks it, and makes its size durable. False: it had that size or more.
// EINVAL if it is no regular file.
Result<bool> GrowFile(const std::string& path, uint64_t size_bytes);
// Gives a regular file all of its blocks up to `size_bytes`, and that size if it is smaller;
// durable. ENOSPC: its size is what it was. EINVAL if it is no regular file.
Status AllocateFile(const std::string& path, uint64_t size_bytes);
// FICLONE of the whole source into the empty file `fd`, which gets the source's NOCOW flag first:
// btrfs refuses to clone between files that differ in it.
Status CloneInto(int source_fd, int fd, const std::string& path);
// Whether FICLONE works in a directory, found out with a real file that is removed again.
Result<bool> ProbeReflink(const std::string& directory);

Status SetImmutable(const std::string& path, bool immutable);
Status SetImmutableFd(int fd, bool immutable, const std::string& path);
// Clears the immutable flag, unlinks, syncs the directory. False: there was no such file.
Result<bool> RemoveFile(const std::string& path);
// Nothing if there is no such file.
Result<std::optional<FileState>> StateOfFile(const std::string& path);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_FILES_H_
