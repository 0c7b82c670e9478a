#include "native/scan/windowed_scan.h"

#include <algorithm>

namespace blockdelta {

Status WindowedScan::Run() {
  while (!filler_->finished()) {
    RETURN_IF_ERROR(ScanWindow());
  }
  return Status();
}

Status WindowedScan::ScanWindow() {
  const Filler::Mark mark = filler_->mark();
  for (unsigned tries = 0; tries < kTries;) {
    Result<bool> sound = Attempt();
    RETURN_IF_ERROR(sound);
    if (*sound) {
      window_ = std::min(window_ * 2, kMaxWindow);
      return Status();
    }
    filler_->Rewind(mark);
    rescans_++;
    if (window_ == kMinWindow) tries++;
    window_ = std::max(window_ / 2, kMinWindow);
  }
  return ScanUnproved(mark);
}

// False if the filled window must be discarded.
Result<bool> WindowedScan::Attempt() {
  Status status = stale_ ? ReadMaps() : Status();
  if (status.ok()) status = filler_->Run(window_);
  stale_ = true;
  // A map read while its extents move can be out of order.
  if (status.Is(kScanMapInvalid) && fence_->extents_move()) return false;
  if (!status.ok()) return status;
  Result<bool> holds = fence_->Holds();
  stale_ = !holds.ok() || !*holds;
  return holds;
}

Status WindowedScan::ReadMaps() {
  RETURN_IF_ERROR(fence_->Raise());
  return filler_->Seek();
}

// Zeros need no address, so only data that would count as equal is affected.
Status WindowedScan::ScanUnproved(const Filler::Mark& mark) {
  walk_->TrustAddresses(false);
  Status status;
  for (unsigned tries = 0; tries < kTries; tries++) {
    status = filler_->Seek();
    if (status.ok()) status = filler_->Run(kMinWindow);
    if (!status.Is(kScanMapInvalid)) break;
    filler_->Rewind(mark);
  }
  walk_->TrustAddresses(true);
  stale_ = true;
  return status;
}

}  // namespace blockdelta
