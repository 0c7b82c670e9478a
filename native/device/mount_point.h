// Where a block device's file system is mounted, as far as this process can see it.
#ifndef BLOCKDELTA_NATIVE_DEVICE_MOUNT_POINT_H_
#define BLOCKDELTA_NATIVE_DEVICE_MOUNT_POINT_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "native/base/status.h"

namespace blockdelta {

// The text of /proc/self/mountinfo (proc(5)).
Result<std::string> ReadMountInfo();

// Whether the mount of that number is in the text, and no other is mounted on its root.
bool IsTopLayer(std::string_view mountinfo, uint64_t mount_id);

// The first mount point of that device in the text of /proc/self/mountinfo (proc(5)); nothing if
// there is none. A btrfs is not found: it has device numbers of its own making.
std::optional<std::string> MountPointOf(std::string_view mountinfo, dev_t device);

// Writes back what the file system on the device, or the raw device, holds in memory, so that
// little is left to be done while it stands still.
Status WriteBack(const std::string& device_path, dev_t device);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_MOUNT_POINT_H_
