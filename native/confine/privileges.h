// Irreversible loss of privileges: capabilities, user, resource limits.
//
// Everything here applies to this process and to the program that it executes. Each function either
// does all of its work or fails. Knows no devices and no programs.
#ifndef BLOCKDELTA_NATIVE_CONFINE_PRIVILEGES_H_
#define BLOCKDELTA_NATIVE_CONFINE_PRIVILEGES_H_

#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>

#include "native/base/status.h"

namespace blockdelta {

// Capability bits, as in /proc/PID/status.
using CapabilitySet = uint64_t;

// Drops all but `kept` from the bounding set. Does nothing without CAP_SETPCAP. That is harmless if
// ForbidNewPrivileges() follows.
Status LowerBoundingSet(CapabilitySet kept);

// Reduces the permitted and effective capabilities to those in `kept`, and clears the inheritable
// and ambient ones.
Status KeepCapabilities(CapabilitySet kept);

// PR_SET_NO_NEW_PRIVS: no program executed from now on gains privileges.
Status ForbidNewPrivileges();

// Switches to `user` and the group of the same number, without supplementary groups. Drops all
// capabilities.
Status BecomeUser(uid_t user);

// Lowers the hard limit to `value` unless it is lower, and sets the soft limit to the hard limit.
Status LowerLimit(__rlimit_resource_t resource, rlim_t value, const char* name);

// Kills this process when its parent ends. ESRCH if the parent is not `parent` because it has
// already ended.
Status DieWithParent(pid_t parent);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_CONFINE_PRIVILEGES_H_
