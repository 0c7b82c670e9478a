// A guardian process, which freezes and thaws file systems for this one and outlives it.
//
// Whatever happens to this process, what the guardian holds is thawed at once, by a thaw that
// nothing interrupts. Whatever happens to the guardian, this process thaws. See
// native/guardian/main.cc.
#ifndef BLOCKDELTA_NATIVE_DEVICE_GUARDIAN_H_
#define BLOCKDELTA_NATIVE_DEVICE_GUARDIAN_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "native/base/posix.h"
#include "native/guardian/protocol.h"

namespace blockdelta {

class Guardian {
 public:
  // What a guardian holds.
  struct Held {
    uint32_t slot;
    uint64_t begun_ns;  // CLOCK_MONOTONIC.
  };

  // In a session of its own, all signals blocked. The program blockdelta-guardian lies beside the
  // addon (or program) that this code is in.
  static Result<Guardian> Start();
  Guardian(Guardian&& other) noexcept;
  Guardian& operator=(Guardian&&) = delete;
  // Ends the guardian and waits for it. It thaws what it still holds.
  ~Guardian();

  // FIFREEZE of an open mount point; `path` describes it in failures. ESTALE: the guardian was
  // lost; it is thawed then.
  Result<Held> Freeze(int mount_fd, const std::string& path);
  // As if Freeze() had frozen it, whether or not it is frozen.
  Result<Held> Adopt(int mount_fd, const std::string& path);
  // FITHAW. `mount_fd` is what was given before: this process thaws it if the guardian is lost.
  // How long it stood frozen, ns. EINVAL: it was not frozen any more.
  Result<uint64_t> Thaw(const Held& held, int mount_fd, const std::string& path);

  // For tests.
  pid_t pid() const { return pid_; }

 private:
  Guardian(pid_t pid, UniqueFd socket) : pid_(pid), socket_(std::move(socket)) {}

  Result<Held> Hold(guardian::Order order, int mount_fd, const std::string& path);
  // False: there is no answer to be had, and the guardian has ended.
  bool Ask(const guardian::Request& request, int fd, int timeout_ms, guardian::Reply* reply);
  // Kills it, and waits until it does nothing any more.
  void Lose();
  void Reap();

  pid_t pid_;  // 0: it has ended.
  UniqueFd socket_;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_GUARDIAN_H_
