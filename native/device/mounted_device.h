// Identifies the file system of an open mount point: its type, and whether it is on a given block
// device.
//
// Asks the file system itself, not mountinfo: a path from mountinfo may lead elsewhere by now, but
// an open directory cannot.
#ifndef BLOCKDELTA_NATIVE_DEVICE_MOUNTED_DEVICE_H_
#define BLOCKDELTA_NATIVE_DEVICE_MOUNTED_DEVICE_H_

#include <cstdint>
#include <string>

#include "native/base/posix.h"

namespace blockdelta {

enum class FileSystemKind { kExt4, kXfs, kBtrfs, kOther };

// ext2 and ext3 count as ext4, which shares their driver.
Result<FileSystemKind> KindOfFileSystem(int mount_fd, const std::string& path);

// A device of a btrfs; `id` is the file system's own device id.
struct BtrfsDevice {
  uint64_t id;
  uint64_t total_bytes;
  uint64_t device_count;
};

// Finds the btrfs device with the st_rdev `device`; ESTALE if there is none.
Result<BtrfsDevice> FindBtrfsDevice(int mount_fd, const std::string& path, dev_t device,
                                    const std::string& device_path);

// ESTALE if the file system is not on that device. `call` names the intended operation.
Status CheckMountedFrom(int mount_fd, const std::string& path, dev_t device,
                        const std::string& device_path, const char* call);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_MOUNTED_DEVICE_H_
