// The protocol between the addon and a guardian: messages of fixed size over a SOCK_SEQPACKET
// socket.
//
// The ends may be of different releases, because a listening guardian outlives plugin updates.
// Messages and orders never change; a guardian answers an order that it does not know with ENOSYS.
#ifndef BLOCKDELTA_NATIVE_GUARDIAN_PROTOCOL_H_
#define BLOCKDELTA_NATIVE_GUARDIAN_PROTOCOL_H_

#include <cstddef>
#include <cstdint>

namespace blockdelta::guardian {

// The guardian's end of the socket while it serves an operation.
inline constexpr int kSocket = 3;
// Maximum number of objects one guardian holds; equals the limit of one addon request.
inline constexpr size_t kMaxHeld = 4096;

enum class Order : uint32_t {
  // Freezes a file system, or suspends a device with its file system frozen, and holds it. EBUSY if
  // a device is already suspended.
  kFreeze = 1,
  // Holds a file system or device as it is, frozen, suspended or not.
  kAdopt = 2,
  // Thaws or resumes the object in a slot, as returned for any hold. EINVAL if it is not frozen or
  // suspended.
  kRelease = 3,
  // Sets a limit `number` ms from now, at which the guardian releases by itself everything that it
  // holds, or comes to hold later, but not what others freeze afterwards. From then on it answers
  // ETIMEDOUT to a freeze that has not completed and to a release. The last limit counts.
  kLimit = 4,
  // Suspends a device whose file system is left as it is, and holds it. EBUSY as for kFreeze.
  kSuspend = 5,
};

struct Request {
  Order order;
  // The slot for kRelease, the time in ms for kLimit. Otherwise 0 with the descriptor of a mount
  // point attached, or the number (dev_t) of a device-mapper device with the descriptor of the
  // control node attached.
  uint32_t number;
};

struct Reply {
  uint32_t slot;
  int32_t error;  // errno; 0 for success.
  // CLOCK_MONOTONIC: when the freeze or suspension began, or when it ended.
  uint64_t at_ns;
};

}  // namespace blockdelta::guardian

#endif  // BLOCKDELTA_NATIVE_GUARDIAN_PROTOCOL_H_
