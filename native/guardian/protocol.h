// The protocol between the addon and a guardian: messages of fixed size over a SOCK_SEQPACKET
// socket.
//
// The ends may come from different releases, because a guardian that listens outlives the plugin's.
// Messages and orders never change; an order that a guardian does not know ends the operation.
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
  // Freezes the mount point whose descriptor is attached, and holds it.
  kFreeze = 1,
  // Holds the mount point whose descriptor is attached without freezing it; it may already be
  // frozen.
  kAdopt = 2,
  // Thaws or resumes what is in the slot `number`, as returned for kFreeze, kAdopt or kSuspend.
  kRelease = 3,
  // Suspends the device-mapper device `number` (dev_t) with its file system frozen, and holds it.
  // The descriptor of device-mapper's control node is attached.
  kSuspend = 4,
};

struct Request {
  Order order;
  uint32_t number;  // 0 for kFreeze and kAdopt.
};

struct Reply {
  uint32_t slot;
  int32_t error;  // errno; 0: success.
  // CLOCK_MONOTONIC: when the freeze or suspension began, or when it ended.
  uint64_t at_ns;
};

}  // namespace blockdelta::guardian

#endif  // BLOCKDELTA_NATIVE_GUARDIAN_PROTOCOL_H_
