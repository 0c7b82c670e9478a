// blockdelta-confine: drops privileges, then executes a program in its place.
//
//   blockdelta-confine [--parent PID] [--keep-mount-rights] [--keep-read-rights]
//                      [--device PATH [--cpu SECONDS] [--give FILE]...
//                                     [--listen ADDRESS | --connect PORT]]
//                      [--memory BYTES]
//                      [--only-read PATH]... [--only-write PATH]... [--only-in DIRECTORY]...
//                      -- PROGRAM [ARGUMENT...]
//
// The program always runs with no_new_privs, without core dumps and without capabilities:
// --keep-mount-rights keeps those of mount(8), --keep-read-rights the one that reads other users'
// files. --parent PID kills the program when that process, which must be the parent, ends.
//
// --device is for programs that read data written by tenants. The program runs as its own user, in
// a root that contains programs, libraries and this one device (device_root.h). It cannot start
// processes, use sockets (system_call_filter.h) or write files, and its address space and CPU time
// are limited.
//
// --give leaves this file readable at its path, as far as its mode allows.
//
// --listen gives the program a TCP socket that listens on this address, as socket activation does
// (network_access.h), and --connect lets it connect to this TCP port. Both are for programs that
// carry the bytes of a device to another node.
//
// --only-read, --only-write and --only-in are for programs that read files written by others: the
// program can open only these files (file_access.h). /proc/self/fd/N is a file that the program
// inherits, whatever has happened to the file's name.
//
// PROGRAM is an absolute path. Exit status 126 means that it was not started, and 125 that it was
// not because nobody can listen on the address; stderr says why.
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "native/base/posix.h"
#include "native/confine/device_root.h"
#include "native/confine/file_access.h"
#include "native/confine/network_access.h"
#include "native/confine/privileges.h"
#include "native/confine/system_call_filter.h"

namespace blockdelta {
namespace {

constexpr int kNotStarted = 126;
constexpr int kNotListening = 125;
constexpr CapabilitySet kMountRights =
    CapabilitySet{1} << CAP_SYS_ADMIN | CapabilitySet{1} << CAP_DAC_READ_SEARCH;
constexpr CapabilitySet kReadRights = CapabilitySet{1} << CAP_DAC_READ_SEARCH;
// A tool opens its device, its pipes and a few files of /proc.
constexpr rlim_t kOpenFiles = 64;
// Seconds between SIGXCPU, which a program may ignore, and SIGKILL.
constexpr rlim_t kCpuGraceS = 5;

struct Request {
  pid_t parent = 0;
  CapabilitySet kept = 0;
  std::string device;
  std::vector<std::string> given;
  std::string listen;
  std::optional<uint16_t> connect;
  FileAccess files;
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
  if (name == "--device" || name == "--listen") {
    (name == "--device" ? request->device : request->listen) = value;
    return Status();
  }
  if (name == "--give") {
    request->given.push_back(value);
    return Status();
  }
  if (name == "--only-read" || name == "--only-write" || name == "--only-in") {
    FileAccess& files = request->files;
    std::vector<std::string>& paths = name == "--only-read"    ? files.reads
                                      : name == "--only-write" ? files.writes
                                                               : files.places;
    paths.push_back(value);
    return Status();
  }
  Result<uint64_t> number = ParseNumber(value, name.c_str());
  RETURN_IF_ERROR(number);
  if (name == "--parent") {
    request->parent = static_cast<pid_t>(*number);
  } else if (name == "--memory") {
    request->memory_bytes = *number;
  } else if (name == "--cpu") {
    request->cpu_s = *number;
  } else if (name == "--connect" && *number <= UINT16_MAX) {
    request->connect = static_cast<uint16_t>(*number);
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
    if (name == "--keep-mount-rights" || name == "--keep-read-rights") {
      request.kept |= name == "--keep-mount-rights" ? kMountRights : kReadRights;
      continue;
    }
    if (next == arguments.size()) return Status::Errno(EINVAL, "parse", name, "missing value");
    RETURN_IF_ERROR(SetOption(name, arguments[next++], &request));
  }
  for (next++; next < arguments.size(); next++) request.command.push_back(arguments[next]);
  const bool needs_device =
      !request.given.empty() || !request.listen.empty() || request.connect.has_value();
  if (needs_device && request.device.empty()) {
    return Status::Errno(EINVAL, "parse", "", "--give, --listen and --connect need --device");
  }
  if (request.command.empty() || request.command[0].rfind('/', 0) != 0) {
    return Status::Errno(EINVAL, "parse", "", "expected the absolute path of a program after --");
  }
  return request;
}

// Makes the OOM killer choose this program first; wrong for programs that must not stop half way.
Status PreferForOomKill() {
  constexpr char kPath[] = "/proc/self/oom_score_adj";
  constexpr char kFirst[] = "1000";
  Result<UniqueFd> fd = OpenPath(kPath, O_WRONLY);
  RETURN_IF_ERROR(fd);
  if (write(fd->get(), kFirst, strlen(kFirst)) == -1) return Status::Errno(errno, "write", kPath);
  return Status();
}

Status LowerLimits(const Request& request) {
  const struct {
    __rlimit_resource_t resource;
    rlim_t value;
    const char* name;
  } limits[] = {
      {RLIMIT_NOFILE, kOpenFiles, "open files"},
      // This limit does not apply to block devices.
      {RLIMIT_FSIZE, 0, "file size"},
  };
  for (const auto& [resource, value, name] : limits) {
    RETURN_IF_ERROR(LowerLimit(resource, value, name));
  }
  if (request.cpu_s == RLIM_INFINITY) return Status();
  const struct rlimit cpu = {request.cpu_s, request.cpu_s + kCpuGraceS};
  if (setrlimit(RLIMIT_CPU, &cpu) == -1) return Status::Errno(errno, "setrlimit", "cpu");
  return Status();
}

// Isolates a tool that reads data written by a tenant: its own root and its own user.
Status BecomeUserOfDevice(const std::string& device, const std::vector<std::string>& given) {
  Result<dev_t> number = NumberOfDevice(device);
  RETURN_IF_ERROR(number);
  const uid_t user = UserOfDevice(*number);
  Status status = EnterDeviceRoot(device, *number, user, given);
  if (status.ok()) status = BecomeUser(user);
  return status;
}

Status Confine(const Request& request) {
  const bool on_device = !request.device.empty();
  const bool may_be_killed = request.parent != 0;
  const FileAccess& files = request.files;
  const bool on_files = !files.reads.empty() || !files.writes.empty() || !files.places.empty();
  Status status = LowerLimit(RLIMIT_CORE, 0, "core");
  if (status.ok()) status = LowerBoundingSet(request.kept);
  if (status.ok() && on_device && may_be_killed) status = PreferForOomKill();
  if (status.ok() && on_device) status = BecomeUserOfDevice(request.device, request.given);
  if (status.ok()) status = KeepCapabilities(request.kept);
  if (status.ok()) status = ForbidNewPrivileges();
  if (status.ok()) status = LowerLimit(RLIMIT_AS, request.memory_bytes, "address space");
  if (status.ok() && on_device) status = LowerLimits(request);
  if (status.ok() && on_files) status = RestrictFiles(files);
  // A change of user clears the parent-death signal, so it is set afterwards.
  if (status.ok() && may_be_killed) status = DieWithParent(request.parent);
  const bool on_network = !request.listen.empty() || request.connect.has_value();
  if (status.ok() && on_network) status = RestrictTcp(request.connect);
  if (status.ok() && on_device) {
    const bool connects = request.connect.has_value();
    status = FilterSystemCalls(connects ? Sockets::kInternet : Sockets::kNone);
  }
  return status;
}

void Append(const std::vector<std::string>& words, std::vector<char*>* to) {
  for (const std::string& word : words) to->push_back(const_cast<char*>(word.c_str()));
  to->push_back(nullptr);
}

// `variables` are added to the environment.
Status Execute(const std::vector<std::string>& command, const std::vector<std::string>& variables) {
  std::vector<char*> arguments;
  Append(command, &arguments);
  std::vector<char*> environment;
  for (char** variable = environ; *variable != nullptr; variable++) {
    environment.push_back(*variable);
  }
  Append(variables, &environment);
  execve(arguments[0], arguments.data(), environment.data());
  return Status::Errno(errno, "execve", command[0]);
}

int Complain(const Status& status, int exit_status) {
  fprintf(stderr, "blockdelta-confine: %s\n", status.failure().Message().c_str());
  return exit_status;
}

// Returns the exit status of a program that was not started.
int Run(const std::vector<std::string>& arguments) {
  Result<Request> request = Parse(arguments);
  if (!request.ok()) return Complain(request.status(), kNotStarted);
  std::vector<std::string> variables;
  if (!request->listen.empty()) {
    Result<std::vector<std::string>> listening = ListenFor(request->listen);
    if (!listening.ok()) return Complain(listening.status(), kNotListening);
    variables = std::move(*listening);
  }
  Status status = Confine(*request);
  if (status.ok()) status = Execute(request->command, variables);
  return Complain(status, kNotStarted);
}

}  // namespace
}  // namespace blockdelta

int main(int count, char** values) { return blockdelta::Run({values + 1, values + count}); }
