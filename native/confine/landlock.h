// The parts of landlock(7) that the headers may be too old for.
#ifndef BLOCKDELTA_NATIVE_CONFINE_LANDLOCK_H_
#define BLOCKDELTA_NATIVE_CONFINE_LANDLOCK_H_

#include <linux/landlock.h>

#include <cstdint>

#include "native/base/status.h"
#include "native/base/unique_fd.h"

namespace blockdelta {

// struct landlock_ruleset_attr of the newest version used here.
struct RulesetAttributes {
  uint64_t files = 0;
  uint64_t tcp = 0;
  uint64_t scoped = 0;
};

// Versions of the kernel's interface, and what each adds.
inline constexpr int kReferVersion = 2;
inline constexpr int kTruncateVersion = 3;
inline constexpr int kTcpVersion = 4;
inline constexpr int kScopeVersion = 6;

inline constexpr uint64_t kBindTcp = 1;
inline constexpr uint64_t kConnectTcp = 2;
inline constexpr uint64_t kSignalsAndAbstractSockets = 1 | 2;

// The version of the kernel; 0 if Landlock is not in it, or not switched on.
Result<int> LandlockVersion();

// Rules that restrict nothing until they are applied.
class Ruleset {
 public:
  // A kernel refuses attributes that it does not know, unless they are 0.
  static Result<Ruleset> Make(const RulesetAttributes& attributes);

  // Files below `path`, with those of the rights that the ruleset handles.
  Status AllowFiles(const std::string& path, uint64_t rights) const;
  Status AllowTcp(uint16_t port, uint64_t rights) const;
  // Needs no_new_privs.
  Status Apply() const;

 private:
  Ruleset(UniqueFd fd, uint64_t files) : fd_(std::move(fd)), files_(files) {}

  UniqueFd fd_;
  uint64_t files_;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_CONFINE_LANDLOCK_H_
