// A file system that stands still, together with others, while its volume is cloned. A guardian of
// ours freezes it, unless another program has already frozen it.
//
// The other program may thaw, write and freeze again at any time, and before Linux 6.6 FIFREEZE
// also fails with EBUSY while the other freeze still waits for writers and has written nothing
// back. So the proof has two parts: FIFREEZE fails with EBUSY at both ends, and between them no
// write reached the device or was on its way, although everything in memory was written back at
// both ends. A write during a thaw would have moved the counters by then. A freeze of ours is
// trusted no more than that, since another program may lift it and freeze again.
//
// Never thaws what another program has frozen.
#ifndef BLOCKDELTA_NATIVE_DEVICE_STANDSTILL_H_
#define BLOCKDELTA_NATIVE_DEVICE_STANDSTILL_H_

#include <optional>

#include "native/device/freeze.h"
#include "native/device/source_volume.h"
#include "native/device/write_counters.h"

namespace blockdelta {

class Standstill {
 public:
  // Freezes, unless another program has. Both must outlive this. REQUIRES: source->MustFreeze().
  static Result<Standstill> Begin(const SourceVolume* source, Guardian* guardian);

  const SourceVolume& source() const { return *source_; }
  bool by_another() const { return !freeze_.has_value(); }
  // Called before the first clone, after the volume was flushed. False if a write is on its way, so
  // that there is no proof this time.
  Result<bool> Watch();
  // Whether the device counts its writes; valid after Watch().
  bool is_counted() const { return before_.has_value(); }
  // Called after the last clone; thaws a freeze of ours. False if the file system did not stand
  // still since Watch(), or others have thawed it. ETIMEDOUT if the guardian's limit ended it.
  Result<bool> End();
  // How long a freeze of ours lasted; valid after End().
  uint64_t frozen_ns() const { return frozen_ns_; }

 private:
  Standstill(const SourceVolume* source, Guardian* guardian, std::optional<Freeze> freeze)
      : source_(source), guardian_(guardian), freeze_(std::move(freeze)) {}

  Result<bool> StoodStill() const;
  // False if a write is on its way.
  Result<bool> IsQuiet(std::optional<WriteCounters>* counters) const;

  const SourceVolume* source_;
  Guardian* guardian_;
  std::optional<Freeze> freeze_;  // Nothing if another program has frozen it.
  std::optional<WriteCounters> before_;
  uint64_t frozen_ns_ = 0;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_STANDSTILL_H_
