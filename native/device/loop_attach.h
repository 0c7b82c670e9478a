// Attaches backing files to loop devices and detaches them, by identity.
#ifndef BLOCKDELTA_NATIVE_DEVICE_LOOP_ATTACH_H_
#define BLOCKDELTA_NATIVE_DEVICE_LOOP_ATTACH_H_

#include <string>

#include "native/device/loop_info.h"

namespace blockdelta {

struct AttachedLoop {
  LoopDevice device;
  bool created;  // False if the file was already attached.
};

// Attaches a file, or finds the device it is already attached to. Uses direct I/O where that is
// safe (direct_io.h) and supported, and turns unsafe direct I/O off on a device found attached.
// `label` is truncated to 63 bytes. EEXIST if the file is attached with the other `read_only`.
// Concurrent calls for one file, in any process, attach it once: two loop devices on one file would
// have two page caches, one of them stale.
Result<AttachedLoop> AttachLoop(const std::string& backing_path, bool read_only,
                                const std::string& label);

// Detaches every device of the file and waits until they are detached. False if nothing was
// attached or no file exists. EBUSY if a device is mounted or open elsewhere; it stays attached.
// `hint` as in BackingFile.
Result<bool> DetachLoop(const std::string& backing_path,
                        std::optional<uint32_t> hint = std::nullopt);

// Detaches the loop devices whose backing file is a bound node of the block device and is not
// mounted anywhere any more, so that no path leads to it. Leaves devices that are mounted or open
// elsewhere. False if nothing was detached.
Result<bool> DetachUnmountedLoops(const std::string& device_path);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_LOOP_ATTACH_H_
