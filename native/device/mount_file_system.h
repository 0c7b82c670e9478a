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
  // Of the file system or its superblock, "name" or "name=value", in order.
  std::vector<std::string> options;
  // Of the mount; nothing is cleared, since a new mount has no flags.
  MountAttributes attributes;
  // Resolved.
  std::string target;
};

// ELOOP if the target contains a symbolic link, EBUSY if something is mounted on it; otherwise the
// errno of the step that failed, with what the kernel logged for it. The message may contain
// options.
Status MountFileSystem(const FileSystemMount& mount);

// FITHAW of the file system that holds the device `source`, completed even if this process is
// killed, through a mount that appears nowhere and ends with the call. A frozen file system
// outlives its last mount, holds its device, and is what the next mount of the device gets.
// `options` has "ro", and is tried with "rw" too. False: it was not frozen. EBUSY: what holds the
// device is no file system of that type. A device that nothing holds is mounted anew, read-only:
// the caller has looked, and has checked its superblock.
Result<bool> ThawDevice(const std::string& source, const std::string& type,
                        const std::vector<std::string>& options);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_MOUNT_FILE_SYSTEM_H_
