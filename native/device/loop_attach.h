// Attaches backing files to loop devices and detaches them, by identity.
#ifndef BLOCKDELTA_NATIVE_DEVICE_LOOP_ATTACH_H_
#define BLOCKDELTA_NATIVE_DEVICE_LOOP_ATTACH_H_

#include <string>

#include "native/device/loop_info.h"

namespace blockdelta {

struct AttachedLoop {
  LoopDevice device;
  bool created;  // False: the file was attached already.
};

// I/O to the file is direct where that is safe (direct_io.h) and the kernel does it; a device that
// was attached already loses direct I/O that is not safe. `label` is cut to 63 bytes. EEXIST if the
// file is attached with the other `read_only`. Safe against other calls of this function, in any
// process, for the same file: one file on two loop devices has two page caches, and one of them
// goes stale.
Result<AttachedLoop> AttachLoop(const std::string& backing_path, bool read_only,
                                const std::string& label);

// Detaches whatever the file is attached to and waits until the devices have let go. False: nothing
// was attached, or there is no such file. EBUSY if somebody has a device mounted or open; it stays
// attached then.
Result<bool> DetachLoop(const std::string& backing_path);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_LOOP_ATTACH_H_
