// The system calls left to a program that may have been compromised.
#ifndef BLOCKDELTA_NATIVE_CONFINE_SYSTEM_CALL_FILTER_H_
#define BLOCKDELTA_NATIVE_CONFINE_SYSTEM_CALL_FILTER_H_

#include "native/base/status.h"

namespace blockdelta {

// Installs a seccomp filter on this process, inherited by the program it executes; needs
// no_new_privs. New processes (but not threads), signals to and inspection of other processes,
// sockets, namespaces, mounts, and everything else that no file system tool calls fail with EPERM.
// Fails on a kernel without seccomp.
//
// Two block device ioctls that need CAP_SYS_ADMIN and without which mkfs.xfs aborts return success
// and do nothing: BLKBSZSET, the block size of a page cache that mkfs.xfs bypasses, and BLKFLSBUF,
// the write-back of that cache. A caller that needs the tool's writes to be durable flushes the
// device.
Status FilterSystemCalls();

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_CONFINE_SYSTEM_CALL_FILTER_H_
