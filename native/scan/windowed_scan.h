// Runs a fill in windows, each checked by a fence, and repeats a window whose fence did not hold.
//
// Windows shrink while extents move and grow again afterwards. If even the smallest window does not
// hold, equality is given up for it: all its data is reported. Knows neither files nor file
// systems.
#ifndef BLOCKDELTA_NATIVE_SCAN_WINDOWED_SCAN_H_
#define BLOCKDELTA_NATIVE_SCAN_WINDOWED_SCAN_H_

#include <cstdint>

#include "native/scan/fill.h"

namespace blockdelta {

// Tells a scan whether the extents it has read may have moved meanwhile.
class Fence {
 public:
  virtual ~Fence() = default;

  // Starts a window and invalidates maps read before it.
  virtual Status Raise() = 0;
  // Whether all addresses read since Raise() may be compared with each other. If so, the window
  // continues; otherwise the window must be read again after another Raise().
  virtual Result<bool> Holds() = 0;
  // Whether the file system moves extents of immutable files. If not, Holds() is always true and an
  // unordered map is an error.
  virtual bool extents_move() const = 0;
};

class WindowedScan {
 public:
  // Window sizes in extents: about 4 ms and 0.3 ms of FIEMAP.
  static constexpr uint64_t kMaxWindow = 4096;
  static constexpr uint64_t kMinWindow = 256;
  // Number of tries with the smallest window before equality is given up for it, and again before
  // an unordered map fails the scan.
  static constexpr unsigned kTries = 8;

  // `filler` must walk `walk`. All must outlive this.
  WindowedScan(Fence* fence, IntervalWalk* walk, Filler* filler)
      : fence_(fence), walk_(walk), filler_(filler) {}

  // Fills until the call is finished.
  Status Run();

  // Number of windows scanned again.
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
  // The extents read ahead are not covered by a fence that holds.
  bool stale_ = true;
  uint64_t rescans_ = 0;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_SCAN_WINDOWED_SCAN_H_
