// Changes attached loop devices: their size, their I/O mode, discards.
#ifndef BLOCKDELTA_NATIVE_DEVICE_LOOP_CHANGE_H_
#define BLOCKDELTA_NATIVE_DEVICE_LOOP_CHANGE_H_

#include <optional>
#include <string>

#include "native/device/loop_info.h"

namespace blockdelta {

// Resizes the file's device to the size of the file. Nothing if the file is not attached or does
// not exist. EIO if the device does not have that size afterwards.
Result<std::optional<LoopDevice>> ResizeLoop(const std::string& backing_path);

// Sets the I/O mode of an open device, direct or through the page cache, and reads it back. EINVAL
// if the file system has no direct I/O, or none for sectors of this size.
Status SetDirectIo(int fd, bool direct_io, const std::string& device_path);
// SetDirectIo() by path. ENXIO if nothing is attached; EOPNOTSUPP if direct writes are unsafe
// (direct_io.h).
Status SetLoopDirectIo(const std::string& device_path, bool direct_io);

// BLKROSET on a block device of any kind.
Status SetDeviceReadOnly(const std::string& device_path, bool read_only);

// Disables discards: fstrim and blkdiscard fail on the device and punch no holes into its file.
// Irreversible for this number (Linux 6.18) until RecreateLoop.
Status RefuseLoopDiscards(uint32_t number);
// Removes an unattached device that refuses discards, so that its number starts anew. False if
// nothing was removed.
bool RecreateLoop(uint32_t number);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_LOOP_CHANGE_H_
