// Operations on block devices and directories by path.
#ifndef BLOCKDELTA_NATIVE_DEVICE_BLOCK_DEVICE_H_
#define BLOCKDELTA_NATIVE_DEVICE_BLOCK_DEVICE_H_

#include <string>

#include "native/base/posix.h"

namespace blockdelta {

// BLKROSET.
Status SetDeviceReadOnly(const std::string& device_path, bool read_only);

// fsync of a block device, a directory or a file.
Status FlushPath(const std::string& path);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_BLOCK_DEVICE_H_
