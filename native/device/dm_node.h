// The nodes of device-mapper devices, /dev/dm-N.
#ifndef BLOCKDELTA_NATIVE_DEVICE_DM_NODE_H_
#define BLOCKDELTA_NATIVE_DEVICE_DM_NODE_H_

#include <sys/types.h>

#include <string>

#include "native/base/status.h"

namespace blockdelta {

// The path of the device's node. devtmpfs or udev make it; where neither does, or where something
// else lies there, it is made here.
Result<std::string> EnsureDmNode(dev_t device);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_DM_NODE_H_
