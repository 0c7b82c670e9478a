#include "native/confine/device_root.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <climits>

#include "native/base/posix.h"

namespace blockdelta {
namespace {

constexpr uid_t kFirstUser = 0x70000000;
constexpr uint32_t kMajorMask = 0xff;
constexpr uint32_t kMinorBits = 20;
constexpr uint32_t kMinorMask = (1u << kMinorBits) - 1;

// The new root is assembled on this directory, which every machine has and the new root hides.
constexpr char kNewRoot[] = "/dev";
constexpr char kTmpfsOptions[] = "mode=0755,size=1m";
constexpr unsigned long kHardened = MS_NOSUID | MS_NODEV;
// Directories of the old root to bind. Missing ones are skipped, symbolic links are copied.
constexpr const char* kBound[] = {"/usr",  "/lib", "/lib32", "/lib64", "/bin",
                                  "/sbin", "/etc", "/proc",  "/sys"};
constexpr unsigned kMemoryMajor = 1;
struct MemoryDevice {
  const char* path;
  unsigned minor;
};
constexpr MemoryDevice kMemoryDevices[] = {
    {"/dev/null", 3}, {"/dev/zero", 5}, {"/dev/random", 8}, {"/dev/urandom", 9}};

Status Mount(const std::string& source, const std::string& target, unsigned long flags) {
  if (mount(source.c_str(), target.c_str(), nullptr, flags, nullptr) == -1) {
    return Status::Errno(errno, "mount", target);
  }
  return Status();
}

Status MakeDirectory(const std::string& path) {
  if (mkdir(path.c_str(), 0755) == -1 && errno != EEXIST) {
    return Status::Errno(errno, "mkdir", path);
  }
  return Status();
}

Status MakeNode(const std::string& path, mode_t mode, dev_t number, uid_t owner) {
  if (mknod(path.c_str(), mode, number) == -1) return Status::Errno(errno, "mknod", path);
  // chmod comes before chown: changing another user's node needs one more capability.
  if (chmod(path.c_str(), mode & 0777) == -1) return Status::Errno(errno, "chmod", path);
  if (chown(path.c_str(), owner, owner) == -1) return Status::Errno(errno, "chown", path);
  return Status();
}

Status CopyLink(const std::string& link, const std::string& copy) {
  char target[PATH_MAX];
  const ssize_t length = readlink(link.c_str(), target, sizeof target - 1);
  if (length == -1) return Status::Errno(errno, "readlink", link);
  target[length] = '\0';
  if (symlink(target, copy.c_str()) == -1) return Status::Errno(errno, "symlink", copy);
  return Status();
}

// Binds a directory of the old root read-only at the same path of the new one.
Status BindReadOnly(const std::string& directory) {
  const std::string target = kNewRoot + directory;
  Result<struct stat> state = StatPath(directory);
  if (state.status().IsErrno(ENOENT)) return Status();
  RETURN_IF_ERROR(state);
  if (S_ISLNK(state->st_mode)) return CopyLink(directory, target);
  Status status = MakeDirectory(target);
  if (status.ok()) status = Mount(directory, target, MS_BIND);
  if (status.ok()) {
    status = Mount("", target, MS_REMOUNT | MS_BIND | MS_RDONLY | kHardened);
  }
  return status;
}

// Makes the directories above a path in the new root.
Status MakeParents(const std::string& path) {
  Status status;
  for (size_t end = path.find('/', 1); status.ok() && end != path.npos;
       end = path.find('/', end + 1)) {
    status = MakeDirectory(kNewRoot + path.substr(0, end));
  }
  return status;
}

// Binds a file of the old root read-only at the same path of the new one.
Status GiveFile(const std::string& path) {
  const std::string target = kNewRoot + path;
  Status status = MakeParents(path);
  if (status.ok()) status = MakeNode(target, S_IFREG | 0444, 0, 0);
  if (status.ok()) status = Mount(path, target, MS_BIND);
  if (status.ok()) {
    status = Mount("", target, MS_REMOUNT | MS_BIND | MS_RDONLY | kHardened | MS_NOEXEC);
  }
  return status;
}

Status MakeDevices(const std::string& device, dev_t number, uid_t user) {
  const std::string root = kNewRoot;
  Status status = MakeParents(device);
  for (const auto& [path, minor] : kMemoryDevices) {
    if (!status.ok()) return status;
    status = MakeNode(root + path, S_IFCHR | 0666, makedev(kMemoryMajor, minor), 0);
  }
  if (status.ok()) status = MakeNode(root + device, S_IFBLK | 0600, number, user);
  return status;
}

// Removes the old root and every mount in it from the namespace. Where pivot_root(2) fails
// (initramfs, chroot), the old root stays below the new one, out of reach.
Status SwitchRoot() {
  if (chdir(kNewRoot) == -1) return Status::Errno(errno, "chdir", kNewRoot);
  if (syscall(SYS_pivot_root, ".", ".") == 0) {
    if (umount2(".", MNT_DETACH) == -1) return Status::Errno(errno, "umount2", "/");
  } else {
    RETURN_IF_ERROR(Mount(".", "/", MS_MOVE));
    if (chroot(".") == -1) return Status::Errno(errno, "chroot", kNewRoot);
  }
  if (chdir("/") == -1) return Status::Errno(errno, "chdir", "/");
  return Status();
}

}  // namespace

uid_t UserOfDevice(dev_t device) {
  return kFirstUser + ((major(device) & kMajorMask) << kMinorBits) + (minor(device) & kMinorMask);
}

Result<dev_t> NumberOfDevice(const std::string& path) {
  struct stat state;
  if (stat(path.c_str(), &state) == -1) return Status::Errno(errno, "stat", path);
  if (!S_ISBLK(state.st_mode)) return Status::Errno(ENOTBLK, "stat", path);
  return state.st_rdev;
}

Status EnterDeviceRoot(const std::string& device, dev_t number, uid_t user,
                       const std::vector<std::string>& files) {
  if (device.rfind("/dev/", 0) != 0 || device.find("/../") != device.npos) {
    return Status::Errno(EINVAL, "parse", device, "not a path below /dev");
  }
  for (const std::string& file : files) {
    if (file.rfind('/', 0) != 0 || file.find("/../") != file.npos) {
      return Status::Errno(EINVAL, "parse", file, "not a plain absolute path");
    }
  }
  if (unshare(CLONE_NEWNS) == -1) return Status::Errno(errno, "unshare", "");
  umask(0022);
  Status status = Mount("", "/", MS_REC | MS_PRIVATE);
  if (!status.ok()) return status;
  if (mount("tmpfs", kNewRoot, "tmpfs", MS_NOSUID, kTmpfsOptions) == -1) {
    return Status::Errno(errno, "mount", kNewRoot);
  }
  for (const char* directory : kBound) {
    status = BindReadOnly(directory);
    if (!status.ok()) return status;
  }
  status = MakeDevices(device, number, user);
  for (const std::string& file : files) {
    if (status.ok()) status = GiveFile(file);
  }
  if (status.ok()) status = Mount("", kNewRoot, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID);
  if (status.ok()) status = SwitchRoot();
  return status;
}

}  // namespace blockdelta
