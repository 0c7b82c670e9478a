#include "native/confine/landlock.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "native/base/posix.h"

namespace blockdelta {
namespace {

// LANDLOCK_RULE_NET_PORT, and struct landlock_net_port_attr.
constexpr int kPortRule = 2;
struct PortRule {
  uint64_t allowed_access;
  uint64_t port;
};

}  // namespace

Result<int> LandlockVersion() {
  const long version = syscall(SYS_landlock_create_ruleset, nullptr, size_t{0},
                               uint32_t{LANDLOCK_CREATE_RULESET_VERSION});
  if (version >= 0) return static_cast<int>(version);
  if (errno == ENOSYS || errno == EOPNOTSUPP) return 0;
  return Status::Errno(errno, "landlock_create_ruleset", "");
}

Result<Ruleset> Ruleset::Make(const RulesetAttributes& attributes) {
  const long fd = syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, uint32_t{0});
  if (fd == -1) return Status::Errno(errno, "landlock_create_ruleset", "");
  return Ruleset(UniqueFd(static_cast<int>(fd)), attributes.files);
}

Status Ruleset::AllowFiles(const std::string& path, uint64_t rights) const {
  Result<UniqueFd> fd = OpenPath(path, O_PATH);
  RETURN_IF_ERROR(fd);
  const landlock_path_beneath_attr rule = {rights & files_, fd->get()};
  if (syscall(SYS_landlock_add_rule, fd_.get(), LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == -1) {
    return Status::Errno(errno, "landlock_add_rule", path);
  }
  return Status();
}

Status Ruleset::AllowTcp(uint16_t port, uint64_t rights) const {
  const PortRule rule = {rights, port};
  if (syscall(SYS_landlock_add_rule, fd_.get(), kPortRule, &rule, 0) == -1) {
    return Status::Errno(errno, "landlock_add_rule", "port " + std::to_string(port));
  }
  return Status();
}

Status Ruleset::Apply() const {
  if (syscall(SYS_landlock_restrict_self, fd_.get(), 0) == -1) {
    return Status::Errno(errno, "landlock_restrict_self", "");
  }
  return Status();
}

}  // namespace blockdelta
