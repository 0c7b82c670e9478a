#include "native/device/freeze.h"

#include <time.h>

#include <utility>

namespace blockdelta {

Result<Freeze> Freeze::Begin(Guardian* guardian, UniqueFd mount_fd, std::string path) {
  const uint64_t begun_ns = ClockNs(CLOCK_MONOTONIC);
  Result<uint32_t> place = guardian->Freeze(mount_fd.get(), path);
  if (place.status().IsErrno(EPERM)) {
    return Status::Errno(EPERM, "FIFREEZE", path, "it needs CAP_SYS_ADMIN");
  }
  if (!place.ok()) return place.TakeStatus();
  return Freeze(guardian, *place, std::move(mount_fd), std::move(path), begun_ns);
}

Freeze::~Freeze() {
  // fd_ is invalid after Thaw() and in one that was moved from.
  if (fd_.valid()) static_cast<void>(Thaw());
}

Status Freeze::Thaw() {
  Status status = guardian_->Thaw(place_, fd_.get(), path_);
  frozen_ns_ = ClockNs(CLOCK_MONOTONIC) - begun_ns_;
  fd_.Close();
  // Somebody has thawed it before us: it is not what was asked for, but it does not stand still.
  if (status.IsErrno(EINVAL)) {
    return Status::Errno(EINVAL, "FITHAW", path_, "another process thawed it meanwhile");
  }
  return status;
}

Result<bool> ThawPath(const std::string& path) {
  Result<UniqueFd> fd = OpenPath(path, O_RDONLY | O_DIRECTORY);
  if (!fd.ok()) return fd.TakeStatus();
  Result<Guardian> guardian = Guardian::Start();
  if (!guardian.ok()) return guardian.TakeStatus();
  Result<uint32_t> place = guardian->Adopt(fd->get(), path);
  if (!place.ok()) return place.TakeStatus();
  Status status = guardian->Thaw(*place, fd->get(), path);
  if (status.IsErrno(EINVAL)) return false;
  if (!status.ok()) return status;
  return true;
}

}  // namespace blockdelta
