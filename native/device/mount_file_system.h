// Mounts the file system of a block device on a directory, through fsopen(2) and its relatives: the
// path is resolved once, without following a symbolic link, and the mount is put on the name in the
// directory that was found. Needs Linux 5.2.
//
// Replaying the journal of a large file system takes the kernel minutes, during which the thread
// waits. Reads no superblock and judges no option: the caller has done both.
#ifndef BLOCKDELTA_NATIVE_DEVICE_MOUNT_FILE_SYSTEM_H_
#define BLOCKDELTA_NATIVE_DEVICE_MOUNT_FILE_SYSTEM_H_

#include <string>
#include <vector>

#include "native/base/status.h"
#include "native/device/mount_layer.h"

namespace blockdelta {

struct FileSystemMount {
  std::string source;
  std::string type;
  // Options of the file system or its superblock, "name" or "name=value", in order.
  std::vector<std::string> options;
  // Attributes of the mount; nothing is cleared, since a new mount has no flags.
  MountAttributes attributes;
  // A resolved path.
  std::string target;
};

// ELOOP if the target contains a symbolic link, EBUSY if something is mounted on it; otherwise the
// errno of the failed step, with what the kernel logged, which may contain options.
Status MountFileSystem(const FileSystemMount& mount);

// Thaws the file system that holds the device `source` (FITHAW); a kill of this process does not
// interrupt the thaw. The call uses a mount that appears nowhere and ends with it, because a frozen
// file system outlives its last mount, holds its device, and is reused by the next mount of the
// device. `options` contains "ro"; the call also tries "rw". False if the file system was not
// frozen. EBUSY if the device is held by anything but a file system of that type. A device without
// a holder is mounted anew, read-only: the caller has looked for a holder and has checked the
// superblock.
Result<bool> ThawDevice(const std::string& source, const std::string& type,
                        const std::vector<std::string>& options);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_MOUNT_FILE_SYSTEM_H_
