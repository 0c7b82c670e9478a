// Single mounts, named by the path and their number in mountinfo: made, given their flags and taken
// away without ever touching another one that is on the same path by then.
#ifndef BLOCKDELTA_NATIVE_DEVICE_MOUNT_LAYER_H_
#define BLOCKDELTA_NATIVE_DEVICE_MOUNT_LAYER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "native/base/status.h"

namespace blockdelta {

// What mount_setattr(2) sets and clears of a mount: MOUNT_ATTR_*.
struct MountAttributes {
  uint64_t set;
  uint64_t clear;
};

// What is bound: a mounted file system by its number in mountinfo, or a device node by its st_rdev.
struct BindSource {
  std::string path;
  std::optional<uint64_t> mount_id;
  std::optional<uint64_t> device;
};

// Unmounts the top layer on the path if it is this mount. False: it is not there. EBUSY if it is in
// use, or something is mounted on it or in it; ESTALE if another layer is on top.
Result<bool> UnmountLayer(const std::string& path, uint64_t mount_id);

// Binds the source, with its attributes from the first moment on, to an empty directory or file
// that nothing is mounted on. ESTALE if the source is another one by now, EBUSY if something is
// mounted on the target.
Status BindMount(const BindSource& source, const std::string& target,
                 const MountAttributes& attributes);

// Of the top layer on the path, if it is this mount; else ESTALE.
Status SetMountAttributes(const std::string& path, uint64_t mount_id,
                          const MountAttributes& attributes);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_MOUNT_LAYER_H_
