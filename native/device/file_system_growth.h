// Grows a mounted file system to the size of its device, by its own ioctl.
#ifndef BLOCKDELTA_NATIVE_DEVICE_FILE_SYSTEM_GROWTH_H_
#define BLOCKDELTA_NATIVE_DEVICE_FILE_SYSTEM_GROWTH_H_

#include <cstdint>
#include <string>

#include "native/base/posix.h"
#include "native/device/mounted_device.h"

namespace blockdelta {

struct Growth {
  FileSystemKind kind;
  // Capacities as statfs tells them.
  uint64_t before_bytes;
  uint64_t after_bytes;
};

// ESTALE if `mount_point` is not a mount of that device; EOPNOTSUPP for other file systems than
// ext4, xfs and a btrfs of one device; EPERM if a capability is missing (the message names it);
// EBUSY if the file system is being reshaped already. One that has the size is left alone, whatever
// the capabilities. Waits while somebody keeps the file system frozen.
Result<Growth> GrowFileSystem(const std::string& mount_point, const std::string& device_path);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_FILE_SYSTEM_GROWTH_H_
