#include "native/device/freeze.h"

#include <linux/fs.h>
#include <sys/sysmacros.h>
#include <time.h>

#include <utility>

namespace blockdelta {
namespace {

using guardian::Order;

constexpr int kThawTries = 50;
constexpr unsigned kThawPauseMs = 20;

Result<bool> ThawOnce(const DmControl* control, int fd, const std::string& name) {
  if (control != nullptr) return ResumeDm(*control, name);
  Status status = Ioctl(fd, FITHAW, 0ul, "FITHAW", name);
  if (status.IsErrno(EINVAL)) return false;
  RETURN_IF_ERROR(status);
  return true;
}

// Thaws an object whose guardian is lost or has failed. Retries, because a temporary shortage of
// memory must not leave the object frozen. False if it was not frozen.
Result<bool> ThawHere(const DmControl* control, int fd, const std::string& name) {
  Result<bool> thawed = ThawOnce(control, fd, name);
  for (int tries = 1; !thawed.ok() && tries < kThawTries; tries++) {
    SleepMs(kThawPauseMs);
    thawed = ThawOnce(control, fd, name);
  }
  return thawed;
}

Result<bool> ThawAdopted(Result<Freeze> adopted) {
  RETURN_IF_ERROR(adopted);
  Result<uint64_t> frozen_ns = adopted->Thaw();
  if (frozen_ns.status().IsErrno(ESTALE)) return false;
  RETURN_IF_ERROR(frozen_ns);
  return true;
}

}  // namespace

uint64_t FreezeOptions::EndNs() const {
  if (!deadline_ms.has_value()) return UINT64_MAX;
  const uint64_t now_ms = ClockNs(CLOCK_REALTIME) / kNsPerMs;
  const uint64_t now_ns = ClockNs(CLOCK_MONOTONIC);
  if (*deadline_ms <= now_ms) return now_ns;
  const uint64_t left_ms = *deadline_ms - now_ms;
  return left_ms < (UINT64_MAX - now_ns) / kNsPerMs ? now_ns + left_ms * kNsPerMs : UINT64_MAX;
}

Result<Freeze> Freeze::Begin(Guardian* guardian, UniqueFd mount_fd, std::string path, Order order) {
  Freeze freeze(guardian, nullptr, std::move(path));
  return freeze.Hold({order, 0}, std::move(mount_fd));
}

Result<Freeze> Freeze::Suspend(Guardian* guardian, const DmControl& control, const DmDevice& device,
                               Order order) {
  UniqueFd control_fd(fcntl(control.fd(), F_DUPFD_CLOEXEC, 0));
  if (!control_fd.valid()) return Status::Errno(errno, "fcntl", device.name);
  Freeze freeze(guardian, &control, device.name);
  const auto number = static_cast<uint32_t>(makedev(device.major, device.minor));
  return freeze.Hold({order, number}, std::move(control_fd));
}

Result<Freeze> Freeze::Hold(const guardian::Request& request, UniqueFd fd) {
  const char* const call = control_ == nullptr ? "FIFREEZE" : "DM_DEV_SUSPEND";
  Result<Guardian::Held> held = guardian_->Hold(request, fd.get(), call, name_);
  if (held.status().IsErrno(ESTALE)) {
    Result<bool> thawed = ThawHere(control_, fd.get(), name_);
    RETURN_IF_ERROR(thawed);
  }
  RETURN_IF_ERROR(held);
  held_ = *held;
  fd_ = std::move(fd);
  return std::move(*this);
}

Freeze::~Freeze() {
  if (fd_.valid()) static_cast<void>(Thaw());
}

Result<uint64_t> Freeze::Thaw() {
  const UniqueFd fd = std::move(fd_);
  const char* const call = control_ == nullptr ? "FITHAW" : "DM_DEV_SUSPEND";
  Result<uint64_t> frozen_ns = guardian_->Release(held_, call, name_);
  if (frozen_ns.status().IsErrno(EINVAL)) {
    return Status::Errno(ESTALE, call, name_, "another process thawed it meanwhile");
  }
  // After ETIMEDOUT the guardian has released the object, or does so as soon as it can.
  if (frozen_ns.ok() || frozen_ns.status().IsErrno(ETIMEDOUT)) return frozen_ns;
  Result<bool> thawed = ThawHere(control_, fd.get(), name_);
  RETURN_IF_ERROR(thawed);
  if (!*thawed) return frozen_ns;
  return ClockNs(CLOCK_MONOTONIC) - held_.begun_ns;
}

Result<bool> ThawMount(UniqueFd mount_fd, const std::string& path) {
  Result<Guardian> guardian = Guardian::Start();
  RETURN_IF_ERROR(guardian);
  return ThawAdopted(Freeze::Begin(&*guardian, std::move(mount_fd), path, Order::kAdopt));
}

Result<bool> ThawPath(const std::string& path) {
  Result<UniqueFd> fd = OpenPath(path, O_RDONLY | O_DIRECTORY);
  RETURN_IF_ERROR(fd);
  return ThawMount(std::move(*fd), path);
}

Result<bool> ResumeDevice(const DmControl& control, const std::string& name) {
  Result<DmDevice> device = DescribeDm(control, name);
  RETURN_IF_ERROR(device);
  if (!device->suspended) return false;
  Result<Guardian> guardian = Guardian::Start();
  RETURN_IF_ERROR(guardian);
  return ThawAdopted(Freeze::Suspend(&*guardian, control, *device, Order::kAdopt));
}

}  // namespace blockdelta
