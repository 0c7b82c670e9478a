#include "native/confine/file_access.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "native/base/posix.h"
#include "native/base/unique_fd.h"

namespace blockdelta {
namespace {

// struct landlock_ruleset_attr of the newest version used here; the headers may be older.
struct RulesetAttributes {
  uint64_t handled_access_fs;
  uint64_t handled_access_net;
  uint64_t scoped;
};
constexpr int kTruncateVersion = 3;
constexpr uint64_t kTruncate = uint64_t{1} << 14;
constexpr int kNetworkVersion = 4;
constexpr uint64_t kTcp = 1 | 2;
constexpr int kScopeVersion = 6;
constexpr uint64_t kSignalsAndAbstractSockets = 1 | 2;
constexpr int kReferVersion = 2;

// All file rights of the first version.
constexpr uint64_t kAllFileRights = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;
constexpr uint64_t kReadFile = LANDLOCK_ACCESS_FS_READ_FILE;
constexpr uint64_t kRun = kReadFile | LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_EXECUTE;
constexpr uint64_t kWriteFile = kReadFile | LANDLOCK_ACCESS_FS_WRITE_FILE;
constexpr uint64_t kMakeHere = kWriteFile | LANDLOCK_ACCESS_FS_READ_DIR |
                               LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG |
                               LANDLOCK_ACCESS_FS_MAKE_SOCK;

// Programs and libraries, and the files that they read at start. Missing paths are skipped.
constexpr const char* kPrograms[] = {"/usr", "/lib", "/lib64", "/bin", "/sbin", "/sys"};
constexpr const char* kStartFiles[] = {"/etc/ld.so.cache", "/etc/localtime"};
constexpr const char* kDevices[] = {"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"};

class Ruleset {
 public:
  static Result<Ruleset> Make(int version) {
    RulesetAttributes attributes = {kAllFileRights, 0, 0};
    if (version >= kReferVersion) attributes.handled_access_fs |= LANDLOCK_ACCESS_FS_REFER;
    if (version >= kTruncateVersion) attributes.handled_access_fs |= kTruncate;
    if (version >= kNetworkVersion) attributes.handled_access_net = kTcp;
    if (version >= kScopeVersion) attributes.scoped = kSignalsAndAbstractSockets;
    // An older kernel accepts fields that it does not know if they are zero.
    const long fd =
        syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, uint32_t{0});
    if (fd == -1) return Status::Errno(errno, "landlock_create_ruleset", "");
    return Ruleset(UniqueFd(static_cast<int>(fd)), attributes.handled_access_fs);
  }

  Status Allow(const std::string& path, uint64_t rights) const {
    Result<UniqueFd> fd = OpenPath(path, O_PATH);
    RETURN_IF_ERROR(fd);
    const landlock_path_beneath_attr rule = {rights & handled_, fd->get()};
    if (syscall(SYS_landlock_add_rule, fd_.get(), LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == -1) {
      return Status::Errno(errno, "landlock_add_rule", path);
    }
    return Status();
  }

  Status AllowIfThere(const std::string& path, uint64_t rights) const {
    return access(path.c_str(), F_OK) == 0 ? Allow(path, rights) : Status();
  }

  Status Apply() const {
    if (syscall(SYS_landlock_restrict_self, fd_.get(), 0) == -1) {
      return Status::Errno(errno, "landlock_restrict_self", "");
    }
    return Status();
  }

 private:
  Ruleset(UniqueFd fd, uint64_t handled) : fd_(std::move(fd)), handled_(handled) {}

  UniqueFd fd_;
  uint64_t handled_;
};

Status AllowStart(const Ruleset& rules) {
  for (const char* path : kPrograms) RETURN_IF_ERROR(rules.AllowIfThere(path, kRun));
  for (const char* path : kStartFiles) RETURN_IF_ERROR(rules.AllowIfThere(path, kReadFile));
  for (const char* path : kDevices) RETURN_IF_ERROR(rules.AllowIfThere(path, kWriteFile));
  return rules.AllowIfThere("/proc/self", kReadFile | LANDLOCK_ACCESS_FS_READ_DIR);
}

}  // namespace

Status RestrictFiles(const FileAccess& access) {
  const long version = syscall(SYS_landlock_create_ruleset, nullptr, size_t{0},
                               uint32_t{LANDLOCK_CREATE_RULESET_VERSION});
  // Landlock is not in the kernel, or not switched on.
  if (version == -1 && (errno == ENOSYS || errno == EOPNOTSUPP)) return Status();
  if (version == -1) return Status::Errno(errno, "landlock_create_ruleset", "");
  Result<Ruleset> rules = Ruleset::Make(static_cast<int>(version));
  RETURN_IF_ERROR(rules);
  RETURN_IF_ERROR(AllowStart(*rules));
  // Missing paths are skipped, because the program itself reports best which file it lacks.
  for (const std::string& path : access.reads) {
    RETURN_IF_ERROR(rules->AllowIfThere(path, kReadFile));
  }
  for (const std::string& path : access.writes) {
    RETURN_IF_ERROR(rules->AllowIfThere(path, kWriteFile | kTruncate));
  }
  for (const std::string& path : access.places) {
    RETURN_IF_ERROR(rules->AllowIfThere(path, kMakeHere | kTruncate));
  }
  return rules->Apply();
}

}  // namespace blockdelta
