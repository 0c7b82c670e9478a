// A root directory that contains programs, libraries and one device.
//
// Knows no programs and no privileges.
#ifndef BLOCKDELTA_NATIVE_CONFINE_DEVICE_ROOT_H_
#define BLOCKDELTA_NATIVE_CONFINE_DEVICE_ROOT_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "native/base/status.h"

namespace blockdelta {

// The user that tools run as on a device: 0x70000000 plus 8 bits of its major and 20 bits of its
// minor number, so that two concurrent tools never share a user. systemd, container managers and
// subordinate ids allocate numbers up to 0x6fffffff; 0x70000000 to 0x7fffffff is unassigned.
uid_t UserOfDevice(dev_t device);

// The number of a block device; ENOTBLK if the path is not a block device.
Result<dev_t> NumberOfDevice(const std::string& path);

// Moves this process into a new mount namespace with a new, read-only root: the directories of the
// old root that programs need (/usr, /etc, /proc, ...), and a /dev with null, zero, random, urandom
// and `device` at its path, accessible to `user`. All other mounts leave the namespace at once; a
// mount that stayed would keep its device busy after the plugin unmounts it. `device` is an
// absolute path below /dev. `files` are absolute paths of files that stay readable at their paths,
// as far as their modes allow; none is below a directory of the old root that stays. Needs
// CAP_SYS_ADMIN and CAP_MKNOD.
Status EnterDeviceRoot(const std::string& device, dev_t number, uid_t user,
                       const std::vector<std::string>& files);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_CONFINE_DEVICE_ROOT_H_
