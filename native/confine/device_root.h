// A root directory with programs, libraries and one device in it.
//
// Knows no programs and no rights.
#ifndef BLOCKDELTA_NATIVE_CONFINE_DEVICE_ROOT_H_
#define BLOCKDELTA_NATIVE_CONFINE_DEVICE_ROOT_H_

#include <sys/types.h>

#include <string>

#include "native/base/status.h"

namespace blockdelta {

// The user that tools on a device run as: 0x70000000 + 8 bits of its major and 20 of its minor
// number, so that two tools at a time never are one user. Up to 0x6fffffff systemd, container
// managers and subordinate ids share the numbers out; from there to 0x7fffffff nobody does.
uid_t UserOfDevice(dev_t device);

// The number of a block device; ENOTBLK if it is none.
Result<dev_t> NumberOfDevice(const std::string& path);

// Moves this process into a mount namespace of its own, with a new, read-only root: what programs
// need of the old one (/usr, /etc, /proc, ...), and a /dev that holds null, zero, random, urandom
// and `device`, under its path, for that user to read and write. All other mounts leave the
// namespace at once: as long as they are in it, they keep their devices busy though the plugin has
// unmounted them. `device` is an absolute path below /dev. Needs CAP_SYS_ADMIN and CAP_MKNOD.
Status EnterDeviceRoot(const std::string& device, dev_t number, uid_t user);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_CONFINE_DEVICE_ROOT_H_
