// What a program that may have been taken over can still ask of the kernel.
#ifndef BLOCKDELTA_NATIVE_CONFINE_SYSTEM_CALL_FENCE_H_
#define BLOCKDELTA_NATIVE_CONFINE_SYSTEM_CALL_FENCE_H_

#include "native/base/status.h"

namespace blockdelta {

// A seccomp filter on this process, inherited by the program it executes; needs no_new_privs. EPERM
// for new processes (threads are none), signals and looks into other processes, sockets,
// namespaces, mounts, and what else of the kernel no tool for file systems calls. A kernel without
// seccomp is a failure.
//
// Two ioctls of block devices that want CAP_SYS_ADMIN, without which mkfs.xfs ends, are answered
// with success and not done: BLKBSZSET, the block size of a page cache that mkfs.xfs goes past, and
// BLKFLSBUF, the writing back of that cache. Whoever needs what a tool wrote to be durable flushes
// the device.
Status FenceSystemCalls();

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_CONFINE_SYSTEM_CALL_FENCE_H_
