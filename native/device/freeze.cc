#include "native/device/freeze.h"

#include <time.h>

#include <utility>

namespace blockdelta {

uint64_t FreezeOptions::EndNs() const {
  if (!deadline_ms.has_value()) return UINT64_MAX;
  const uint64_t now_ms = ClockNs(CLOCK_REALTIME) / kNsPerMs;
  const uint64_t now_ns = ClockNs(CLOCK_MONOTONIC);
  if (*deadline_ms <= now_ms) return now_ns;
  const uint64_t left_ms = *deadline_ms - now_ms;
  return left_ms < (UINT64_MAX - now_ns) / kNsPerMs ? now_ns + left_ms * kNsPerMs : UINT64_MAX;
}

Result<Freeze> Freeze::Begin(Guardian* guardian, UniqueFd mount_fd, std::string path) {
  Result<Guardian::Held> held = guardian->Freeze(mount_fd.get(), path);
  if (held.status().IsErrno(EPERM)) {
    return Status::Errno(EPERM, "FIFREEZE", path, "it needs CAP_SYS_ADMIN");
  }
  RETURN_IF_ERROR(held);
  return Freeze(guardian, *held, std::move(mount_fd), std::move(path));
}

Freeze::~Freeze() {
  // fd_ is invalid after Thaw() and in a moved-from object.
  if (fd_.valid()) static_cast<void>(Thaw());
}

Status Freeze::Thaw() {
  Result<uint64_t> frozen_ns = guardian_->Thaw(held_, fd_.get(), path_);
  fd_.Close();
  if (frozen_ns.ok()) {
    frozen_ns_ = *frozen_ns;
    return Status();
  }
  // The file system is not frozen, but it was not frozen throughout either.
  if (frozen_ns.status().IsErrno(EINVAL)) {
    return Status::Errno(EINVAL, "FITHAW", path_, "another process thawed it meanwhile");
  }
  return frozen_ns.TakeStatus();
}

Result<bool> ThawMount(const UniqueFd& mount_fd, const std::string& path) {
  Result<Guardian> guardian = Guardian::Start();
  RETURN_IF_ERROR(guardian);
  Result<Guardian::Held> held = guardian->Adopt(mount_fd.get(), path);
  RETURN_IF_ERROR(held);
  Result<uint64_t> frozen_ns = guardian->Thaw(*held, mount_fd.get(), path);
  if (frozen_ns.status().IsErrno(EINVAL)) return false;
  RETURN_IF_ERROR(frozen_ns);
  return true;
}

Result<bool> ThawPath(const std::string& path) {
  Result<UniqueFd> fd = OpenPath(path, O_RDONLY | O_DIRECTORY);
  RETURN_IF_ERROR(fd);
  return ThawMount(*fd, path);
}

}  // namespace blockdelta
