// What lies behind an open mount point: the kind of file system, and whether a given block device
// carries it.
//
// Asks the file system itself, never a table of mounts: a path that was read there may lead
// elsewhere by now, an open directory cannot.
#ifndef BLOCKDELTA_NATIVE_DEVICE_MOUNTED_DEVICE_H_
#define BLOCKDELTA_NATIVE_DEVICE_MOUNTED_DEVICE_H_

#include <cstdint>
#include <string>

#include "native/base/posix.h"

namespace blockdelta {

enum class FileSystemKind { kExt4, kXfs, kBtrfs, kOther };

// ext2 and ext3 count as ext4: one driver serves them all.
Result<FileSystemKind> KindOfFileSystem(int mount_fd, const std::string& path);

// A device of a btrfs, in its own numbering.
struct BtrfsDevice {
  uint64_t id;
  uint64_t total_bytes;
  uint64_t devices_in_all;
};

// ESTALE if the btrfs has no such device. `device` is the st_rdev of a block device.
Result<BtrfsDevice> FindBtrfsDevice(int mount_fd, const std::string& path, dev_t device,
                                    const std::string& device_path);

// ESTALE if the file system is not on that device. `call` names what was about to be done.
Status CheckMountedFrom(int mount_fd, const std::string& path, dev_t device,
                        const std::string& device_path, const char* call);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_MOUNTED_DEVICE_H_
