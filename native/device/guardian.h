// The client of a guardian process, which freezes file systems, suspends device-mapper devices, and
// outlives this process.
//
// If this process dies, the guardian releases what it holds at once, and nothing interrupts the
// release. If the guardian dies, this process releases instead. If the guardian does not answer in
// time because a freeze hangs in the kernel, this process abandons the guardian, which releases
// what it holds when the freeze ends. Therefore nothing that must be released in time shares a
// guardian with another freeze. See native/guardian/main.cc.
//
// A guardian that this process starts dies with it if a whole cgroup or PID namespace is killed, as
// at the end of a container. A guardian that listens in another container survives.
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

  // With a socket, connects to `blockdelta-guardian --listen`, which must run as the user of this
  // process; EPERM otherwise. Without one, starts the blockdelta-guardian that is installed beside
  // the shared object (or program) that contains this code, after setsid(2) and with all signals
  // blocked.
  static Result<Guardian> Start(const std::optional<std::string>& socket = std::nullopt);
  Guardian(Guardian&& other) noexcept;
  Guardian& operator=(Guardian&&) = delete;
  // Ends the guardian and waits until it has released what it still holds.
  ~Guardian();

  // Makes the guardian release by itself, at `end_ns` (CLOCK_MONOTONIC) or as soon as it can, all
  // it holds or comes to hold. Afterwards freezes and releases fail with ETIMEDOUT. ENOSYS if the
  // guardian is of a release without limits.
  Status Limit(uint64_t end_ns);
  // Freezes a file system, suspends a device, or takes either as it is; protocol.h describes
  // `request` and `fd`. `call` and `object` identify the call in failures. EPERM or EACCES if the
  // guardian has no CAP_SYS_ADMIN. ESTALE if the guardian was lost, which may leave the object
  // frozen. ETIMEDOUT if the freeze did not complete in time; the guardian thaws a late freeze at
  // once.
  Result<Held> Hold(const guardian::Request& request, int fd, const char* call,
                    const std::string& object);
  // Thaws or resumes. Returns how long the object was frozen, ns. EINVAL if it was not frozen.
  // ESTALE if the guardian was lost. ETIMEDOUT if the limit has ended the freeze, or if the
  // guardian does not answer and thaws when it can.
  Result<uint64_t> Release(const Held& held, const char* call, const std::string& object);

  // For tests. 0 if another process started the guardian, or the guardian was lost or abandoned.
  pid_t pid() const { return pid_; }

 private:
  Guardian(pid_t pid, UniqueFd socket) : pid_(pid), socket_(std::move(socket)) {}

  static Result<Guardian> Spawn();
  static Result<Guardian> Connect(const std::string& socket);
  // Returns the answer to an order. ESTALE if the guardian has ended; ETIMEDOUT without an answer
  // if the guardian was abandoned. In both cases socket_ is invalid.
  Result<guardian::Reply> Ask(const guardian::Request& request, int fd, const char* call,
                              const std::string& object);
  Result<guardian::Reply> Lost(const char* call, const std::string& object);
  int AnswerMs(guardian::Order order) const;
  // Abandons the guardian, which releases what it holds when it continues. It is never killed: the
  // kernel would still carry out a freeze that hangs, and nobody would lift the freeze.
  void GiveUp();

  pid_t pid_;
  uint64_t end_ns_ = UINT64_MAX;  // The argument of Limit().
  UniqueFd socket_;               // Invalid after a loss, GiveUp() or a move.
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_GUARDIAN_H_
