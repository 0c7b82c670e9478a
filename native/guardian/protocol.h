// What a guardian is asked and what it answers: messages of fixed size over a SOCK_SEQPACKET
// socket.
//
// Both ends come from one build, so that nothing here has to be negotiated.
#ifndef BLOCKDELTA_NATIVE_GUARDIAN_PROTOCOL_H_
#define BLOCKDELTA_NATIVE_GUARDIAN_PROTOCOL_H_

#include <cstddef>
#include <cstdint>

namespace blockdelta::guardian {

// The descriptor that a guardian is started with: its end of the socket.
inline constexpr int kSocket = 3;
// File systems that one guardian holds at most; as many as a request of the addon may name.
inline constexpr size_t kMaxHeld = 4096;

enum class Order : uint32_t {
  // A descriptor of a mount point comes along: freeze it, and hold it.
  kFreeze = 1,
  // A descriptor comes along of one that may be frozen already: hold it.
  kAdopt = 2,
  // Thaw what the answer to one of the other two called `place`.
  kThaw = 3,
};

struct Request {
  Order order;
  uint32_t place;  // Of kThaw; otherwise 0.
};

struct Reply {
  uint32_t place;
  int32_t error;  // errno; 0: done.
  // CLOCK_MONOTONIC: when freezing was begun, or thawing had ended.
  uint64_t at_ns;
};

}  // namespace blockdelta::guardian

#endif  // BLOCKDELTA_NATIVE_GUARDIAN_PROTOCOL_H_
