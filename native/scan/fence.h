// What a scan asks to find out whether the extents it read can have moved meanwhile.
#ifndef BLOCKDELTA_NATIVE_SCAN_FENCE_H_
#define BLOCKDELTA_NATIVE_SCAN_FENCE_H_

#include "native/base/status.h"

namespace blockdelta {

class Fence {
 public:
  virtual ~Fence() = default;

  // Begins a window: maps that were read before it count no longer.
  virtual Status Raise() = 0;
  // Whether all addresses read since Raise() may be compared with each other. True lets the window
  // go on; after false it has to be read anew behind a new fence.
  virtual Result<bool> Holds() = 0;
  // Whether extents move at all without anybody breaking a rule. If not, Holds() is always true and
  // a map that is not in order is an error.
  virtual bool extents_move() const = 0;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_SCAN_FENCE_H_
