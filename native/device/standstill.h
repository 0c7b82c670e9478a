// A file system that stands still while its volume is cloned, together with others: frozen by a
// guardian of ours or, where another program has frozen it before, as it is.
//
// The other program may thaw, write and freeze again at any time, and before Linux 6.6 FIFREEZE
// also fails with EBUSY while its freeze still waits for writers, with nothing written back. So the
// proof is that FIFREEZE fails so at both ends and that, between them, no write reached the device
// or was on its way, although everything in memory was written back at both ends: what was written
// while it was thawed would have moved the counters by then. A freeze of ours is not trusted more
// than that, since another program may lift it and freeze again.
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
  // Freezes, unless another program has. Both outlive this. REQUIRES: source->MustFreeze().
  static Result<Standstill> Begin(const SourceVolume* source, Guardian* guardian);

  const SourceVolume& source() const { return *source_; }
  bool by_another() const { return !freeze_.has_value(); }
  // Before the first clone, after the volume was flushed. False: a write is on its way, so there is
  // no proof this time.
  Result<bool> Watch();
  // Valid after Watch().
  bool is_counted() const { return before_.has_value(); }
  // After the last clone: thaws a freeze of ours. False: it did not stand still since Watch(), or
  // another program has thawed it. ETIMEDOUT: the limit of the guardian ended the freeze.
  Result<bool> End();
  // How long a freeze of ours lasted; valid after End().
  uint64_t frozen_ns() const { return frozen_ns_; }

 private:
  Standstill(const SourceVolume* source, Guardian* guardian, std::optional<Freeze> freeze)
      : source_(source), guardian_(guardian), freeze_(std::move(freeze)) {}

  Result<bool> StoodStill() const;
  // False: a write is on its way.
  Result<bool> IsQuiet(std::optional<WriteCounters>* counters) const;

  const SourceVolume* source_;
  Guardian* guardian_;
  std::optional<Freeze> freeze_;  // Nothing: another program has frozen it.
  std::optional<WriteCounters> before_;
  uint64_t frozen_ns_ = 0;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_STANDSTILL_H_
