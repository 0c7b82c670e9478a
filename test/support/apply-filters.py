"""Installs the system call filters that systemd installs for a unit's settings, then runs a command.

    apply-filters.py SETTINGS COMMAND [ARGUMENT...]

SETTINGS is a JSON object made by service-unit.ts. The filters deny what systemd.exec(5) says of
SystemCallFilter=, RestrictAddressFamilies=, RestrictNamespaces=, LockPersonality= and RestrictRealtime=.
Needs Debian's python3-seccomp.
"""

import errno
import json
import os
import socket
import sys

import seccomp
from seccomp import ALLOW, EQ, ERRNO, GT, MASKED_EQ, NE, Arg, Attr, SyscallFilter

NAMESPACE_FLAGS = {
    "cgroup": 0x02000000,
    "ipc": 0x08000000,
    "net": 0x40000000,
    "mnt": 0x00020000,
    "pid": 0x20000000,
    "user": 0x10000000,
    "uts": 0x04000000,
}
LAST_FAMILY = 45
LAST_ORDINARY_POLICY = 5
BATCH, IDLE, OTHER = 3, 5, 0


def new_filter(default):
    result = SyscallFilter(default)
    result.set_attr(Attr.CTL_NNP, 0)
    return result


def allow_families(names):
    allowed = {getattr(socket, name) for name in names}
    result = new_filter(ALLOW)
    denied = ERRNO(errno.EAFNOSUPPORT)
    for family in range(LAST_FAMILY + 1):
        if family not in allowed:
            result.add_rule(denied, "socket", Arg(0, EQ, family))
    result.add_rule(denied, "socket", Arg(0, GT, LAST_FAMILY))
    result.load()


def allow_namespaces(names):
    result = new_filter(ALLOW)
    # Its flags are in memory, where a filter cannot read them.
    result.add_rule(ERRNO(errno.ENOSYS), "clone3")
    result.add_rule(ERRNO(errno.EPERM), "setns", Arg(1, EQ, 0))
    for name, flag in NAMESPACE_FLAGS.items():
        if name not in names:
            for call, argument in (("unshare", 0), ("clone", 0), ("setns", 1)):
                result.add_rule(ERRNO(errno.EPERM), call, Arg(argument, MASKED_EQ, flag, flag))
    result.load()


def lock_personality():
    result = new_filter(ALLOW)
    result.add_rule(ERRNO(errno.EPERM), "personality", Arg(0, NE, 0))
    result.load()


def restrict_realtime():
    result = new_filter(ALLOW)
    for policy in range(LAST_ORDINARY_POLICY + 1):
        if policy not in (OTHER, BATCH, IDLE):
            result.add_rule(ERRNO(errno.EPERM), "sched_setscheduler", Arg(1, EQ, policy))
    result.add_rule(ERRNO(errno.EPERM), "sched_setscheduler", Arg(1, GT, LAST_ORDINARY_POLICY))
    result.load()


def allow_calls(names, error):
    result = new_filter(ERRNO(getattr(errno, error)))
    for name in sorted(set(names)):
        # systemd knows system calls of other architectures too.
        if seccomp.resolve_syscall(seccomp.Arch.NATIVE, name) >= 0:
            result.add_rule(ALLOW, name)
    result.load()


def main():
    settings = json.loads(sys.argv[1])
    if settings["lockPersonality"]:
        lock_personality()
    if settings["restrictRealtime"]:
        restrict_realtime()
    allow_families(settings["addressFamilies"])
    allow_namespaces(settings["namespaces"])
    # The last one, because it denies seccomp(2).
    allow_calls(settings["systemCalls"], settings["errorNumber"])
    os.execvp(sys.argv[2], sys.argv[2:])


main()
