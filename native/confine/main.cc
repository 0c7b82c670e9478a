// blockdelta-confine: gives up rights, then executes a program in its place.
//
//   blockdelta-confine [--parent PID] [--keep-mount-rights] [--device PATH [--memory BYTES] [--cpu
//   SECONDS]]
//                      -- PROGRAM [ARGUMENT...]
//
// Always: no capability but, with --keep-mount-rights, those of mount(8) and umount(8);
// no_new_privs; no core dump. --parent: the program is killed when the process with that id, which
// started this one, ends.
//
// --device is for programs that read what tenants have written. The program runs as a user that
// nothing else is, in a root that shows programs, libraries and this one device (device_root.h). It
// starts no process and uses no socket (system_call_fence.h), writes no file, and has no more
// address space and processor time than it is told.
//
// PROGRAM is an absolute path. Exit status 126: the program was not started, and stderr says why.
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "native/base/posix.h"
#include "native/confine/device_root.h"
#include "native/confine/privileges.h"
#include "native/confine/system_call_fence.h"

namespace blockdelta {
namespace {

constexpr int kNotStarted = 126;
constexpr CapabilitySet kMountRights =
    CapabilitySet{1} << CAP_SYS_ADMIN | CapabilitySet{1} << CAP_DAC_READ_SEARCH;
// A tool has its device, its pipes and a few files of /proc open.
constexpr rlim_t kOpenFiles = 64;
// After the warning by SIGXCPU, which a program may ignore.
constexpr rlim_t kCpuGraceS = 5;

struct Request {
  pid_t parent = 0;
  bool keep_mount_rights = false;
  std::string device;
  rlim_t memory_bytes = RLIM_INFINITY;
  rlim_t cpu_s = RLIM_INFINITY;
  std::vector<std::string> command;
};

Result<uint64_t> ParseNumber(const std::string& text, const char* option) {
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != text.npos) {
    return Status::Errno(EINVAL, "parse", option, "not a number: " + text);
  }
  return static_cast<uint64_t>(strtoull(text.c_str(), nullptr, 10));
}

Status SetOption(const std::string& name, const std::string& value, Request* request) {
  if (name == "--device") {
    request->device = value;
    return Status();
  }
  Result<uint64_t> number = ParseNumber(value, name.c_str());
  if (!number.ok()) return number.TakeStatus();
  if (name == "--parent") {
    request->parent = static_cast<pid_t>(*number);
  } else if (name == "--memory") {
    request->memory_bytes = *number;
  } else if (name == "--cpu") {
    request->cpu_s = *number;
  } else {
    return Status::Errno(EINVAL, "parse", name, "unknown option");
  }
  return Status();
}

Result<Request> Parse(const std::vector<std::string>& arguments) {
  Request request;
  size_t next = 0;
  while (next < arguments.size() && arguments[next] != "--") {
    const std::string& name = arguments[next++];
    if (name == "--keep-mount-rights") {
      request.keep_mount_rights = true;
      continue;
    }
    if (next == arguments.size()) return Status::Errno(EINVAL, "parse", name, "has no value");
    Status status = SetOption(name, arguments[next++], &request);
    if (!status.ok()) return status;
  }
  for (next++; next < arguments.size(); next++) request.command.push_back(arguments[next]);
  if (request.command.empty() || request.command[0].rfind('/', 0) != 0) {
    return Status::Errno(EINVAL, "parse", "", "no absolute path of a program after --");
  }
  return request;
}

// The kernel ends this program first when memory runs out. Not one that must not stop half way.
Status OfferMemory() {
  constexpr char kPath[] = "/proc/self/oom_score_adj";
  constexpr char kFirst[] = "1000";
  Result<UniqueFd> fd = OpenPath(kPath, O_WRONLY);
  if (!fd.ok()) return fd.TakeStatus();
  if (write(fd->get(), kFirst, strlen(kFirst)) == -1) return Status::Errno(errno, "write", kPath);
  return Status();
}

Status LowerLimits(const Request& request) {
  const struct {
    __rlimit_resource_t resource;
    rlim_t value;
    const char* name;
  } limits[] = {
      {RLIMIT_AS, request.memory_bytes, "address space"},
      {RLIMIT_NOFILE, kOpenFiles, "open files"},
      // Block devices are exempt.
      {RLIMIT_FSIZE, 0, "file size"},
  };
  for (const auto& [resource, value, name] : limits) {
    Status status = LowerLimit(resource, value, name);
    if (!status.ok()) return status;
  }
  if (request.cpu_s == RLIM_INFINITY) return Status();
  const struct rlimit cpu = {request.cpu_s, request.cpu_s + kCpuGraceS};
  if (setrlimit(RLIMIT_CPU, &cpu) == -1) return Status::Errno(errno, "setrlimit", "cpu");
  return Status();
}

// What a tool that reads what a tenant has written does not have: a place among others, a user that
// anybody else is.
Status BecomeUserOfDevice(const std::string& device) {
  Result<dev_t> number = NumberOfDevice(device);
  if (!number.ok()) return number.TakeStatus();
  const uid_t user = UserOfDevice(*number);
  Status status = EnterDeviceRoot(device, *number, user);
  if (status.ok()) status = BecomeUser(user);
  return status;
}

Status Confine(const Request& request) {
  const CapabilitySet kept = request.keep_mount_rights ? kMountRights : 0;
  const bool on_device = !request.device.empty();
  const bool may_be_killed = request.parent != 0;
  Status status = LowerLimit(RLIMIT_CORE, 0, "core");
  if (status.ok()) status = LowerBoundingSet(kept);
  if (status.ok() && on_device && may_be_killed) status = OfferMemory();
  if (status.ok() && on_device) status = BecomeUserOfDevice(request.device);
  if (status.ok()) status = KeepCapabilities(kept);
  if (status.ok()) status = ForbidNewPrivileges();
  if (status.ok() && on_device) status = LowerLimits(request);
  // A change of user takes the signal back, so it is asked for afterwards.
  if (status.ok() && may_be_killed) status = DieWithParent(request.parent);
  if (status.ok() && on_device) status = FenceSystemCalls();
  return status;
}

Status Execute(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  execv(arguments[0], arguments.data());
  return Status::Errno(errno, "execv", command[0]);
}

Status Run(const std::vector<std::string>& arguments) {
  Result<Request> request = Parse(arguments);
  if (!request.ok()) return request.TakeStatus();
  Status status = Confine(*request);
  if (!status.ok()) return status;
  return Execute(request->command);
}

}  // namespace
}  // namespace blockdelta

int main(int count, char** values) {
  const blockdelta::Status status = blockdelta::Run({values + 1, values + count});
  fprintf(stderr, "blockdelta-confine: %s\n", status.failure().message.c_str());
  return blockdelta::kNotStarted;
}
