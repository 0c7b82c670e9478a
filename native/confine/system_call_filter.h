// The system calls left to a program that may have been compromised.
#ifndef BLOCKDELTA_NATIVE_CONFINE_SYSTEM_CALL_FILTER_H_
#define BLOCKDELTA_NATIVE_CONFINE_SYSTEM_CALL_FILTER_H_

#include "native/base/status.h"

namespace blockdelta {

// Whether the program may make sockets: none, or those of TCP and UDP over IP.
enum class Sockets { kNone, kInternet };

// Installs a seccomp filter on this process, which the program it executes inherits; needs
// no_new_privs. These calls fail with EPERM: new processes (but not threads), signals to and
// inspection of other processes, other sockets, namespaces, mounts, and other calls that no file
// system tool makes. A call of another architecture kills the process. Fails on a kernel without
// seccomp.
//
// Two block device ioctls return success and do nothing, because they need CAP_SYS_ADMIN and
// mkfs.xfs aborts if they fail: BLKBSZSET, the block size of a page cache that mkfs.xfs bypasses,
// and BLKFLSBUF, the write-back of that cache. A caller that needs the tool's writes to be durable
// flushes the device.
Status FilterSystemCalls(Sockets sockets);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_CONFINE_SYSTEM_CALL_FILTER_H_
