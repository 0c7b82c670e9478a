#include "native/device/standstill.h"

#include <utility>

namespace blockdelta {

Result<Standstill> Standstill::Begin(const SourceVolume* source, Guardian* guardian) {
  Result<Freeze> freeze = source->BeginFreeze(guardian);
  if (freeze.ok()) return Standstill(source, guardian, std::move(*freeze));
  if (!freeze.status().IsErrno(EBUSY)) return freeze.TakeStatus();
  Standstill standstill(source, guardian, std::nullopt);
  RETURN_IF_ERROR(source->SyncFileSystem());
  return standstill;
}

Result<bool> Standstill::Watch() {
  Result<bool> in_flight = HasWriteInFlight(source_->device());
  RETURN_IF_ERROR(in_flight);
  Result<std::optional<WriteCounters>> counters = ReadWriteCounters(source_->device());
  RETURN_IF_ERROR(counters);
  before_ = *counters;
  return !*in_flight;
}

Result<bool> Standstill::StoodStill() const {
  Result<bool> in_flight = HasWriteInFlight(source_->device());
  RETURN_IF_ERROR(in_flight);
  Result<std::optional<WriteCounters>> after = ReadWriteCounters(source_->device());
  RETURN_IF_ERROR(after);
  return !*in_flight && *after == before_;
}

Result<bool> Standstill::End() {
  if (!by_another()) {
    Result<bool> stood_still = StoodStill();
    Status thawed = freeze_->Thaw();
    if (thawed.IsErrno(EINVAL)) return false;
    RETURN_IF_ERROR(thawed);
    return stood_still;
  }
  RETURN_IF_ERROR(source_->SyncFileSystem());
  Result<bool> stood_still = StoodStill();
  if (!stood_still.ok() || !*stood_still) return stood_still;
  // If this freezes, it was thawed, and is again when this returns.
  Result<Freeze> freeze = source_->BeginFreeze(guardian_);
  if (freeze.ok()) return false;
  if (freeze.status().IsErrno(EBUSY)) return true;
  return freeze.TakeStatus();
}

}  // namespace blockdelta
