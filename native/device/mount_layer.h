// Creates, changes and unmounts single mounts, identified by path and mount id. Never touches
// another mount that takes the path meanwhile.
#ifndef BLOCKDELTA_NATIVE_DEVICE_MOUNT_LAYER_H_
#define BLOCKDELTA_NATIVE_DEVICE_MOUNT_LAYER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "native/base/status.h"
#include "native/device/anchored_path.h"

namespace blockdelta {

// MOUNT_ATTR_* flags that mount_setattr(2) sets and clears.
struct MountAttributes {
  uint64_t set;
  uint64_t clear;
};

// The source of a bind mount: a mounted file system, identified by its mount id, or a device node,
// identified by its st_rdev.
struct BindSource {
  std::string path;
  std::optional<uint64_t> mount_id;
  std::optional<uint64_t> device;
};

// Unmounts the top layer on the path if it is this mount. False if nothing is at the path. EBUSY if
// it is in use, or a mount is on or inside it; ESTALE if another layer is on top.
Result<bool> UnmountLayer(const std::string& path, uint64_t mount_id);

// EBUSY if something is mounted on the target.
Status CheckFree(const AnchoredPath& target);

// Puts a detached mount on an empty target that is not a mount point; EBUSY if it is one.
Status PlaceMount(int mount_fd, const AnchoredPath& target);

// Binds the source to an empty directory or file that is not a mount point. The attributes apply
// before the mount becomes visible. ESTALE if the source has another identity, EBUSY if something
// is mounted on the target.
Status BindMount(const BindSource& source, const std::string& target,
                 const MountAttributes& attributes);

// mount_setattr(2) on the top layer of the path; ESTALE if it is not this mount.
Status SetMountAttributes(const std::string& path, uint64_t mount_id,
                          const MountAttributes& attributes);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_MOUNT_LAYER_H_
