#include "native/device/mount_file_system.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "native/device/freeze.h"

namespace blockdelta {
namespace {

// The kernel keeps the last eight messages of a context.
constexpr int kMaxMessages = 8;

long Configure(int context, unsigned command, const char* key, const char* value) {
  return RetryInterrupted([&] { return syscall(SYS_fsconfig, context, command, key, value, 0); });
}

// The kernel's messages for the context, without their levels (the "e " of "e xfs: ...").
std::string Messages(int context) {
  std::string text;
  char buffer[512];
  for (int count = 0; count < kMaxMessages; count++) {
    const ssize_t length =
        RetryInterrupted([&] { return read(context, buffer, sizeof buffer - 1); });
    // ENODATA means that there is no other message.
    if (length <= 0) break;
    std::string message(buffer, static_cast<size_t>(length));
    while (!message.empty() && message.back() == '\n') message.pop_back();
    const bool has_level = message.size() > 2 && message[1] == ' ';
    if (!text.empty()) text += "; ";
    text += has_level ? message.substr(2) : message;
  }
  return text;
}

// REQUIRES: errno is that of the call.
Status FailedStep(int context, const char* call, const std::string& path) {
  const int error = errno;
  return Status::Errno(error, call, path, Messages(context));
}

Status SetOption(int context, const std::string& option, const std::string& path) {
  const size_t equals = option.find('=');
  const long result =
      equals == std::string::npos
          ? Configure(context, FSCONFIG_SET_FLAG, option.c_str(), nullptr)
          : Configure(context, FSCONFIG_SET_STRING, option.substr(0, equals).c_str(),
                      option.substr(equals + 1).c_str());
  return result == -1 ? FailedStep(context, "fsconfig", path) : Status();
}

// Makes a mount that is attached nowhere yet and ends with its descriptor.
Result<UniqueFd> MakeMount(const FileSystemMount& mount) {
  const long opened =
      RetryInterrupted([&] { return syscall(SYS_fsopen, mount.type.c_str(), FSOPEN_CLOEXEC); });
  if (opened == -1) return Status::Errno(errno, "fsopen", mount.type);
  const UniqueFd context(static_cast<int>(opened));
  if (Configure(context.get(), FSCONFIG_SET_STRING, "source", mount.source.c_str()) == -1) {
    return FailedStep(context.get(), "fsconfig", mount.source);
  }
  for (const std::string& option : mount.options) {
    RETURN_IF_ERROR(SetOption(context.get(), option, mount.source));
  }
  if (Configure(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr) == -1) {
    return FailedStep(context.get(), "mount", mount.source);
  }
  const long made = RetryInterrupted(
      [&] { return syscall(SYS_fsmount, context.get(), FSMOUNT_CLOEXEC, mount.attributes.set); });
  if (made == -1) return FailedStep(context.get(), "fsmount", mount.source);
  return UniqueFd(static_cast<int>(made));
}

}  // namespace

Status MountFileSystem(const FileSystemMount& mount) {
  Result<AnchoredPath> anchored = AnchoredPath::Open(mount.target);
  RETURN_IF_ERROR(anchored);
  // Check before the kernel spends minutes on a journal.
  RETURN_IF_ERROR(CheckFree(*anchored));
  Result<UniqueFd> made = MakeMount(mount);
  RETURN_IF_ERROR(made);
  return PlaceMount(made->get(), *anchored);
}

Result<bool> ThawDevice(const std::string& source, const std::string& type,
                        const std::vector<std::string>& options) {
  constexpr uint64_t kUntrusted = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
  FileSystemMount mount = {source, type, options, {kUntrusted, 0}, ""};
  // The kernel returns EBUSY unless the mount has the mode of the superblock. Read-only comes
  // first: btrfs accepts both modes, and before Linux 6.8 makes a read-only superblock writable for
  // "rw".
  Result<UniqueFd> made = MakeMount(mount);
  if (made.status().IsErrno(EBUSY)) {
    std::replace(mount.options.begin(), mount.options.end(), std::string("ro"), std::string("rw"));
    made = MakeMount(mount);
  }
  RETURN_IF_ERROR(made);
  // The descriptor of the mount is O_PATH, which allows no ioctl.
  UniqueFd root(RetryInterrupted(
      [&] { return openat(made->get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (!root.valid()) return Status::Errno(errno, "openat", source);
  return ThawMount(std::move(root), source);
}

}  // namespace blockdelta
