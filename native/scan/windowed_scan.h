// Runs a fill in windows behind a fence, and each window again for as long as the fence falls.
//
// Windows get smaller while extents move, and larger again. When even the smallest does not hold,
// equality is given up for it: all its data are reported. It knows neither files nor file systems.
#ifndef BLOCKDELTA_NATIVE_SCAN_WINDOWED_SCAN_H_
#define BLOCKDELTA_NATIVE_SCAN_WINDOWED_SCAN_H_

#include <cstdint>

#include "native/scan/fence.h"
#include "native/scan/fill.h"

namespace blockdelta {

class WindowedScan {
 public:
  // In extents: about 4 ms and 0.3 ms of FIEMAP.
  static constexpr uint64_t kMaxWindow = 4096;
  static constexpr uint64_t kMinWindow = 256;
  // Tries with the smallest window before equality is given up for it, and then before a map that
  // is still not in order fails the scan.
  static constexpr unsigned kTries = 8;

  // `walk` is the one that `filler` walks. All must outlive this.
  WindowedScan(Fence* fence, IntervalWalk* walk, Filler* filler)
      : fence_(fence), walk_(walk), filler_(filler) {}

  // Fills until the call has to end.
  Status Run();

  // Times a window was scanned again.
  uint64_t rescans() const { return rescans_; }

 private:
  Status ScanWindow();
  Result<bool> Attempt();
  Status ReadMaps();
  Status ScanUnproved(const Filler::Mark& mark);

  Fence* const fence_;
  IntervalWalk* const walk_;
  Filler* const filler_;
  uint64_t window_ = kMaxWindow;
  // What the walk has read ahead lies behind no fence that holds.
  bool stale_ = true;
  uint64_t rescans_ = 0;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_SCAN_WINDOWED_SCAN_H_
