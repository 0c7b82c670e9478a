#include "native/confine/privileges.h"

#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace blockdelta {
namespace {

constexpr CapabilitySet Bit(int capability) { return CapabilitySet{1} << capability; }

Status ReadCapabilities(__user_cap_data_struct (&data)[_LINUX_CAPABILITY_U32S_3]) {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  if (syscall(SYS_capget, &header, data) == -1) return Status::Errno(errno, "capget", "");
  return Status();
}

Status WriteCapabilities(CapabilitySet held) {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
  for (uint32_t word = 0; word < _LINUX_CAPABILITY_U32S_3; word++) {
    data[word].permitted = static_cast<uint32_t>(held >> (32 * word));
    data[word].effective = data[word].permitted;
  }
  if (syscall(SYS_capset, &header, data) == -1) return Status::Errno(errno, "capset", "");
  return Status();
}

}  // namespace

Status LowerBoundingSet(CapabilitySet kept) {
  for (int capability = 0; capability < 64; capability++) {
    const int held = prctl(PR_CAPBSET_READ, capability, 0, 0, 0);
    // The number is past the last capability of this kernel.
    if (held == -1) return Status();
    if (held == 0 || (kept & Bit(capability)) != 0) continue;
    if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == -1) {
      if (errno == EPERM) return Status();
      return Status::Errno(errno, "PR_CAPBSET_DROP", "");
    }
  }
  return Status();
}

Status KeepCapabilities(CapabilitySet kept) {
  __user_cap_data_struct found[_LINUX_CAPABILITY_U32S_3] = {};
  RETURN_IF_ERROR(ReadCapabilities(found));
  const CapabilitySet permitted =
      found[0].permitted | static_cast<CapabilitySet>(found[1].permitted) << 32;
  if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == -1) {
    return Status::Errno(errno, "PR_CAP_AMBIENT_CLEAR_ALL", "");
  }
  return WriteCapabilities(permitted & kept);
}

Status ForbidNewPrivileges() {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1) {
    return Status::Errno(errno, "PR_SET_NO_NEW_PRIVS", "");
  }
  return Status();
}

Status BecomeUser(uid_t user) {
  if (setgroups(0, nullptr) == -1) return Status::Errno(errno, "setgroups", "");
  if (setresgid(user, user, user) == -1) return Status::Errno(errno, "setresgid", "");
  if (setresuid(user, user, user) == -1) return Status::Errno(errno, "setresuid", "");
  return Status();
}

Status LowerLimit(__rlimit_resource_t resource, rlim_t value, const char* name) {
  struct rlimit limit;
  if (getrlimit(resource, &limit) == -1) return Status::Errno(errno, "getrlimit", name);
  limit.rlim_max = std::min(limit.rlim_max, value);
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(resource, &limit) == -1) return Status::Errno(errno, "setrlimit", name);
  return Status();
}

Status DieWithParent(pid_t parent) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == -1) {
    return Status::Errno(errno, "PR_SET_PDEATHSIG", "");
  }
  if (getppid() != parent) return Status::Errno(ESRCH, "getppid", "");
  return Status();
}

}  // namespace blockdelta
