#include "native/confine/file_access.h"

#include <unistd.h>

#include "native/confine/landlock.h"

namespace blockdelta {
namespace {

constexpr uint64_t kTruncate = uint64_t{1} << 14;

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

Result<Ruleset> MakeRules(int version) {
  RulesetAttributes attributes;
  attributes.files = kAllFileRights;
  if (version >= kReferVersion) attributes.files |= LANDLOCK_ACCESS_FS_REFER;
  if (version >= kTruncateVersion) attributes.files |= kTruncate;
  if (version >= kTcpVersion) attributes.tcp = kBindTcp | kConnectTcp;
  if (version >= kScopeVersion) attributes.scoped = kSignalsAndAbstractSockets;
  return Ruleset::Make(attributes);
}

// Skips a missing path.
Status AllowIfThere(const Ruleset& rules, const std::string& path, uint64_t rights) {
  return access(path.c_str(), F_OK) == 0 ? rules.AllowFiles(path, rights) : Status();
}

Status AllowStart(const Ruleset& rules) {
  for (const char* path : kPrograms) RETURN_IF_ERROR(AllowIfThere(rules, path, kRun));
  for (const char* path : kStartFiles) RETURN_IF_ERROR(AllowIfThere(rules, path, kReadFile));
  for (const char* path : kDevices) RETURN_IF_ERROR(AllowIfThere(rules, path, kWriteFile));
  return AllowIfThere(rules, "/proc/self", kReadFile | LANDLOCK_ACCESS_FS_READ_DIR);
}

}  // namespace

Status RestrictFiles(const FileAccess& access) {
  Result<int> version = LandlockVersion();
  RETURN_IF_ERROR(version);
  if (*version == 0) return Status();
  Result<Ruleset> rules = MakeRules(*version);
  RETURN_IF_ERROR(rules);
  RETURN_IF_ERROR(AllowStart(*rules));
  // Missing paths are skipped, because the program itself reports best which file it lacks.
  for (const std::string& path : access.reads) {
    RETURN_IF_ERROR(AllowIfThere(*rules, path, kReadFile));
  }
  for (const std::string& path : access.writes) {
    RETURN_IF_ERROR(AllowIfThere(*rules, path, kWriteFile | kTruncate));
  }
  for (const std::string& path : access.places) {
    RETURN_IF_ERROR(AllowIfThere(*rules, path, kMakeHere | kTruncate));
  }
  return rules->Apply();
}

}  // namespace blockdelta
