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
  // Capacities as statfs(2) reports them.
  uint64_t before_bytes;
  uint64_t after_bytes;
};

// ESTALE if `mount_point` is not a mount of that device; EOPNOTSUPP for file systems other than
// ext4, xfs and a btrfs of one device; EPERM if a capability is missing (the message names it);
// EBUSY during a balance, a replacement or another resize. A file system that already fills its
// device is left unchanged and needs no capabilities. Waits while the file system is frozen.
Result<Growth> GrowFileSystem(const std::string& mount_point, const std::string& device_path);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_FILE_SYSTEM_GROWTH_H_
