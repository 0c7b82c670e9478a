#include "native/device/suspension.h"

#include <sys/sysmacros.h>
#include <time.h>

#include <utility>

namespace blockdelta {
namespace {

constexpr int kResumeTries = 50;
constexpr unsigned kResumePauseMs = 20;

dev_t NumberOf(const DmDevice& device) { return makedev(device.major, device.minor); }

// For a device whose guardian is lost or has failed. A temporary shortage of memory must not leave
// it suspended. False: it was not suspended.
Result<bool> ResumeHere(const DmControl& control, const std::string& name) {
  Result<bool> resumed = ResumeDm(control, name);
  for (int tries = 1; !resumed.ok() && tries < kResumeTries; tries++) {
    SleepMs(kResumePauseMs);
    resumed = ResumeDm(control, name);
  }
  return resumed;
}

}  // namespace

Result<Suspension> Suspension::Begin(const DmControl& control, Guardian* guardian,
                                     const DmDevice& device, bool freezes) {
  Result<Guardian::Held> held =
      freezes ? guardian->Suspend(control.fd(), NumberOf(device), device.name)
              : guardian->SuspendOnly(control.fd(), NumberOf(device), device.name);
  if (held.status().IsErrno(EACCES)) {
    return Status::Errno(EACCES, "DM_DEV_SUSPEND", device.name, "the guardian needs CAP_SYS_ADMIN");
  }
  if (held.status().IsErrno(ESTALE)) {
    Result<bool> resumed = ResumeHere(control, device.name);
    RETURN_IF_ERROR(resumed);
  }
  RETURN_IF_ERROR(held);
  return Suspension(&control, guardian, *held, device.name);
}

Suspension::Suspension(const DmControl* control, Guardian* guardian, Guardian::Held held,
                       std::string name)
    : control_(control), guardian_(guardian), held_(held), name_(std::move(name)) {}

Suspension::Suspension(Suspension&& other) noexcept
    : control_(other.control_),
      guardian_(std::exchange(other.guardian_, nullptr)),
      held_(other.held_),
      name_(std::move(other.name_)) {}

Suspension::~Suspension() {
  if (guardian_ != nullptr) static_cast<void>(Resume());
}

Result<uint64_t> Suspension::Resume() {
  Result<uint64_t> stood_ns = std::exchange(guardian_, nullptr)->Resume(held_, name_);
  if (stood_ns.ok()) return stood_ns;
  if (stood_ns.status().IsErrno(EINVAL)) {
    return Status::Errno(ESTALE, "DM_DEV_SUSPEND", name_, "another process resumed it");
  }
  // The guardian has let go, or does as soon as it can.
  if (stood_ns.status().IsErrno(ETIMEDOUT)) return stood_ns;
  Result<bool> resumed = ResumeHere(*control_, name_);
  RETURN_IF_ERROR(resumed);
  if (!*resumed) return stood_ns;
  return ClockNs(CLOCK_MONOTONIC) - held_.begun_ns;
}

Result<bool> ResumeDevice(const DmControl& control, const std::string& name) {
  Result<DmDevice> device = DescribeDm(control, name);
  RETURN_IF_ERROR(device);
  if (!device->suspended) return false;
  Result<Guardian> guardian = Guardian::Start();
  RETURN_IF_ERROR(guardian);
  Result<Guardian::Held> held = guardian->AdoptDevice(control.fd(), NumberOf(*device), name);
  RETURN_IF_ERROR(held);
  Result<uint64_t> stood_ns = guardian->Resume(*held, name);
  if (stood_ns.status().IsErrno(EINVAL)) return false;
  RETURN_IF_ERROR(stood_ns);
  return true;
}

}  // namespace blockdelta
