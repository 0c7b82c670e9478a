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

Result<bool> Standstill::Watch() { return IsQuiet(&before_); }

Result<bool> Standstill::StoodStill() const {
  std::optional<WriteCounters> after;
  Result<bool> is_quiet = IsQuiet(&after);
  RETURN_IF_ERROR(is_quiet);
  return *is_quiet && after == before_;
}

Result<bool> Standstill::IsQuiet(std::optional<WriteCounters>* counters) const {
  Result<bool> in_flight = HasWriteInFlight(source_->device());
  RETURN_IF_ERROR(in_flight);
  Result<std::optional<WriteCounters>> read = ReadWriteCounters(source_->device());
  RETURN_IF_ERROR(read);
  *counters = *read;
  return !*in_flight;
}

Result<bool> Standstill::End() {
  if (!by_another()) {
    Result<bool> stood_still = StoodStill();
    Result<uint64_t> frozen_ns = freeze_->Thaw();
    if (frozen_ns.status().IsErrno(ESTALE)) return false;
    RETURN_IF_ERROR(frozen_ns);
    frozen_ns_ = *frozen_ns;
    return stood_still;
  }
  RETURN_IF_ERROR(source_->SyncFileSystem());
  Result<bool> stood_still = StoodStill();
  if (!stood_still.ok() || !*stood_still) return stood_still;
  // If this freeze succeeds, another program has thawed the file system. It ends on return.
  Result<Freeze> freeze = source_->BeginFreeze(guardian_);
  if (freeze.ok()) return false;
  if (freeze.status().IsErrno(EBUSY)) return true;
  return freeze.TakeStatus();
}

}  // namespace blockdelta
