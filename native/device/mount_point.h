// Finds mounts in /proc/self/mountinfo (proc(5)), as visible to this process.
#ifndef BLOCKDELTA_NATIVE_DEVICE_MOUNT_POINT_H_
#define BLOCKDELTA_NATIVE_DEVICE_MOUNT_POINT_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "native/base/status.h"

namespace blockdelta {

// The text of /proc/self/mountinfo.
Result<std::string> ReadMountInfo();

// Whether the mount with that id is in the text and nothing is mounted on its root.
bool IsTopLayer(std::string_view mountinfo, uint64_t mount_id);

// The first mount point of the device in the text; nothing if there is none. Does not find a btrfs,
// which has device numbers of its own.
std::optional<std::string> MountPointOf(std::string_view mountinfo, dev_t device);

// Writes back the dirty data of the file system on the device, or of the raw device, so that a
// following suspension is short.
Status WriteBack(const std::string& device_path, dev_t device);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_MOUNT_POINT_H_
