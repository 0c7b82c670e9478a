// Volume and snapshot files: created under a temporary name, made durable, then renamed.
//
// A killed call leaves at most a file with the temporary name, which the next call with that name
// removes. Knows no loop devices and no extents.
#ifndef BLOCKDELTA_NATIVE_DEVICE_FILES_H_
#define BLOCKDELTA_NATIVE_DEVICE_FILES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "native/base/posix.h"

namespace blockdelta {

// The temporary and the final path of a new file, in one directory.
struct NewFileNames {
  std::string temporary;
  std::string final;
};

// A file with its temporary name, open for reading and writing, mode 0600. The file is removed on
// destruction unless it was published.
class NewFile {
 public:
  // EEXIST if the final name exists. Removes a left-over file with the temporary name.
  static Result<NewFile> Create(NewFileNames names);
  NewFile(NewFile&&) = default;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  int fd() const { return fd_.get(); }
  const std::string& temporary() const { return names_.temporary; }
  const std::string& final() const { return names_.final; }
  bool published() const { return published_; }

  // Syncs and renames the file; the caller syncs the directory. EEXIST if the final name exists.
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
  // False if the file has a seal (base/seal.h) and does not match it.
  bool matches_seal;
};

// Whether a write replaces the bytes where they lie: the file has the flag NOCOW of btrfs. `fd`
// must allow ioctls, so it was not opened with O_PATH.
Result<bool> IsWrittenInPlace(int fd, const std::string& path);
Status CreateSparseFile(NewFileNames names, uint64_t size_bytes);
// Makes a writable clone of a snapshot file, extended with zeros to `size_bytes`. EINVAL if the
// source is larger; SCAN_MUTABLE if it is not an immutable regular file, does not match its seal,
// or changes during the call.
Status CloneFile(const std::string& source_path, NewFileNames names, uint64_t size_bytes);
// Grows a file durably; never shrinks it. False if it already had that size or more. EINVAL if it
// is not a regular file.
Result<bool> GrowFile(const std::string& path, uint64_t size_bytes);
// Allocates all blocks of a regular file up to `size_bytes`, and grows it to that size if it is
// smaller; durable. ENOSPC leaves the size unchanged. EINVAL if it is not a regular file.
Status AllocateFile(const std::string& path, uint64_t size_bytes);
// FICLONE of the whole source into the empty file `fd`, after copying the source's NOCOW flag:
// btrfs refuses to clone between files that differ in it.
Status CloneInto(int source_fd, int fd, const std::string& path);
// Whether FICLONE works in a directory, tested with temporary files.
Result<bool> ProbeReflink(const std::string& directory);

// Seals an open file (base/seal.h), takes away its write permission and syncs it: what precedes the
// immutable flag of every frozen file.
Status SealFile(int fd, const std::string& path);
// Freezes a file that nobody writes to any more, under its final name in the same directory: as
// TakeSnapshots freezes what it takes. Goes on where a killed call has stopped; succeeds if there
// is nothing left to do. EEXIST if both names exist, ENOENT if none does. SCAN_MUTABLE if the file
// was changed after a killed call had sealed it.
Status FreezeFile(const NewFileNames& names);

// Sets or clears FS_IMMUTABLE_FL.
Status SetImmutableFd(int fd, bool immutable, const std::string& path);
// Clears the immutable flag, unlinks the file and syncs the directory. False if there is no such
// file.
Result<bool> RemoveFile(const std::string& path);
// Nothing if there is no such file.
Result<std::optional<FileState>> StateOfFile(const std::string& path);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_FILES_H_
