// The protocol between the addon and a guardian: messages of fixed size over a SOCK_SEQPACKET
// socket.
//
// The ends may come from different releases, because a guardian that listens outlives the plugin's.
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
  // Freezes a file system, or suspends a device with its file system frozen, and holds it. EBUSY: a
  // device is already suspended.
  kFreeze = 1,
  // Holds a file system or device as it is, frozen, suspended or not.
  kAdopt = 2,
  // Thaws or resumes what is in a slot, as returned for kFreeze or kAdopt. EINVAL: it is not frozen
  // or suspended.
  kRelease = 3,
  // Ends what this guardian holds, or comes to hold, `number` milliseconds from now: it then
  // releases all of it by itself, and never again what somebody else freezes later. From then on a
  // freeze that has not ended, and a release, are answered with ETIMEDOUT. The last limit counts.
  kLimit = 4,
  // Suspends a device whose file system is left as it is, and holds it. EBUSY as for kFreeze.
  kSuspend = 5,
};

struct Request {
  Order order;
  // For kRelease the slot, for kLimit a time. Otherwise 0, and the descriptor of a mount point is
  // attached; or the number (dev_t) of a device-mapper device, and the descriptor of the control
  // node is attached.
  uint32_t number;
};

struct Reply {
  uint32_t slot;
  int32_t error;  // errno; 0: success.
  // CLOCK_MONOTONIC: when the freeze or suspension began, or when it ended.
  uint64_t at_ns;
};

}  // namespace blockdelta::guardian

#endif  // BLOCKDELTA_NATIVE_GUARDIAN_PROTOCOL_H_
