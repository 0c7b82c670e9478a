// The client of a guardian process, which freezes file systems, suspends device-mapper devices, and
// outlives this process.
//
// If this process dies, the guardian releases what it holds at once, and nothing interrupts that.
// If the guardian dies, this process does it. If it does not answer in time, because a freeze hangs
// in the kernel, this process leaves it, and it releases what it then holds when the freeze ends.
// So nothing that must be released in time has a guardian in common with another freeze. See
// native/guardian/main.cc.
//
// A guardian that this process starts ends with it where a whole cgroup or PID namespace is killed,
// as at the end of a container. One that waits in another container does not.
#ifndef BLOCKDELTA_NATIVE_DEVICE_GUARDIAN_H_
#define BLOCKDELTA_NATIVE_DEVICE_GUARDIAN_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "native/base/posix.h"
#include "native/guardian/protocol.h"

namespace blockdelta {

class Guardian {
 public:
  // A file system or device that the guardian holds.
  struct Held {
    uint32_t slot;
    uint64_t begun_ns;  // CLOCK_MONOTONIC.
  };

  // With a socket: the guardian of `blockdelta-guardian --listen`, whose process must have the user
  // of this one; EPERM otherwise. Without: starts blockdelta-guardian, which is installed beside
  // the shared object (or program) that contains this code, in its own session with all signals
  // blocked.
  static Result<Guardian> Start(const std::optional<std::string>& socket = std::nullopt);
  Guardian(Guardian&& other) noexcept;
  Guardian& operator=(Guardian&&) = delete;
  // Ends the guardian and waits until it has released what it still holds.
  ~Guardian();

  // Ends what is held, and what this guardian comes to hold, at that time (CLOCK_MONOTONIC): it
  // releases it by itself. Freezes and releases fail with ETIMEDOUT afterwards. ENOSYS: the
  // guardian is of a release that has no limits.
  Status Limit(uint64_t end_ns);
  // Freezes a file system, suspends a device, or takes it as it is; see protocol.h for what
  // `request` and `fd` say. `call` and `object` identify it in failures. EPERM, EACCES: the
  // guardian has no CAP_SYS_ADMIN. ESTALE: the guardian was lost, and may have left it frozen.
  // ETIMEDOUT: it did not end in time; when it does, the guardian thaws at once.
  Result<Held> Hold(const guardian::Request& request, int fd, const char* call,
                    const std::string& object);
  // Thaws or resumes. Returns how long it was frozen, ns. EINVAL: it was not frozen. ESTALE: the
  // guardian was lost. ETIMEDOUT: it is not frozen any more since the limit, or the guardian does
  // not answer and thaws it when it can.
  Result<uint64_t> Release(const Held& held, const char* call, const std::string& object);

  // For tests. 0: another process has started it.
  pid_t pid() const { return pid_; }

 private:
  Guardian(pid_t pid, UniqueFd socket) : pid_(pid), socket_(std::move(socket)) {}

  static Result<Guardian> Spawn();
  static Result<Guardian> Connect(const std::string& socket);
  // The answer to an order. ESTALE: the guardian has ended, ETIMEDOUT without an answer: it was
  // left to itself. In both cases socket_ is invalid.
  Result<guardian::Reply> Ask(const guardian::Request& request, int fd, const char* call,
                              const std::string& object);
  Result<guardian::Reply> Lost(const char* call, const std::string& object);
  int AnswerMs(guardian::Order order) const;
  // The guardian is not waited for: it releases what it holds when it goes on. Never killed,
  // because a freeze that hangs is carried out all the same, and nobody would lift it.
  void GiveUp();

  pid_t pid_;
  uint64_t end_ns_ = UINT64_MAX;  // Of Limit().
  UniqueFd socket_;               // Invalid: the guardian has ended, or this object was moved from.
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_GUARDIAN_H_
