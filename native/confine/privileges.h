// Giving up rights for good: capabilities, user, resource limits.
//
// All of it belongs to this process and is inherited by the program it executes. Each function
// either does all it says or fails. Knows no devices and no programs.
#ifndef BLOCKDELTA_NATIVE_CONFINE_PRIVILEGES_H_
#define BLOCKDELTA_NATIVE_CONFINE_PRIVILEGES_H_

#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>

#include "native/base/status.h"

namespace blockdelta {

// Bits of capabilities, as in /proc/PID/status.
using CapabilitySet = uint64_t;

// Takes all but `kept` out of the bounding set. Without CAP_SETPCAP nothing happens, which does no
// harm behind ForbidNewPrivileges.
Status LowerBoundingSet(CapabilitySet kept);

// Keeps of the capabilities that the process has those in `kept`, and nothing inheritable or
// ambient.
Status KeepCapabilities(CapabilitySet kept);

// PR_SET_NO_NEW_PRIVS: no program that is executed from now on has more rights than this process.
Status ForbidNewPrivileges();

// Becomes that user and its group, without supplementary groups. All capabilities go with it.
Status BecomeUser(uid_t user);

// Lowers the soft and the hard limit; one that is lower already stays.
Status LowerLimit(__rlimit_resource_t resource, rlim_t value, const char* name);

// Kills this process when its parent ends. The parent that has ended already, and so cannot be
// noticed, is found by its id: ESRCH.
Status DieWithParent(pid_t parent);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_CONFINE_PRIVILEGES_H_
