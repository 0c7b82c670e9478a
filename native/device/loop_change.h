// Changes attached loop devices: their size after their file has grown, and how they do I/O.
#ifndef BLOCKDELTA_NATIVE_DEVICE_LOOP_CHANGE_H_
#define BLOCKDELTA_NATIVE_DEVICE_LOOP_CHANGE_H_

#include <optional>
#include <string>

#include "native/device/loop_info.h"

namespace blockdelta {

// Gives the file's device the file's size. Nothing: it is not attached, or there is no such file.
// EIO if the device did not take the size.
Result<std::optional<LoopDevice>> ResizeLoop(const std::string& backing_path);

// Direct I/O to the backing file, or through the page cache, of an open device; read back. EINVAL
// if the file system has no direct I/O, or none for sectors of this size.
Status SetDirectIo(int fd, bool direct_io, const std::string& device_path);
// The same by path. ENXIO if nothing is attached; EOPNOTSUPP if the device may not write directly
// (direct_io.h).
Status SetLoopDirectIo(const std::string& device_path, bool direct_io);

// Has the device refuse discards: fstrim and blkdiscard fail on it and punch no holes into its
// file. It cannot be made to take them again: its number keeps that (Linux 6.18), until RenewLoop.
Status RefuseLoopDiscards(uint32_t number);
// Removes a number that nobody is attached to, if it refuses discards: it begins anew. False: not
// done.
bool RenewLoop(uint32_t number);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_LOOP_CHANGE_H_
