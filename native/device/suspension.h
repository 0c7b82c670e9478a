// A device-mapper device that a guardian suspends for the lifetime of an object; see guardian.h.
#ifndef BLOCKDELTA_NATIVE_DEVICE_SUSPENSION_H_
#define BLOCKDELTA_NATIVE_DEVICE_SUSPENSION_H_

#include <cstdint>
#include <string>

#include "native/device/dm_device.h"
#include "native/device/guardian.h"

namespace blockdelta {

class Suspension {
 public:
  // Suspends the device with its file system frozen, or left as it is. EBUSY if it is already
  // suspended, or (before Linux 6.8) its file system already frozen: another process will end that
  // at an unknown time. ESTALE: the guardian was lost, and the device is resumed. ETIMEDOUT as for
  // Guardian::Suspend(). `control` and `guardian` outlive this.
  static Result<Suspension> Begin(const DmControl& control, Guardian* guardian,
                                  const DmDevice& device, bool freezes = true);
  Suspension(Suspension&& other) noexcept;
  Suspension& operator=(Suspension&&) = delete;
  // Resumes unless Resume() was called.
  ~Suspension();

  // Returns how long it was suspended, ns. ESTALE: not throughout, so its snapshot may be torn.
  Result<uint64_t> Resume();

 private:
  Suspension(const DmControl* control, Guardian* guardian, Guardian::Held held, std::string name);

  const DmControl* control_;
  Guardian* guardian_;  // Null: resumed, or moved from.
  Guardian::Held held_;
  std::string name_;
};

// Resumes a device, completed even if this process is killed. False: it was not suspended.
Result<bool> ResumeDevice(const DmControl& control, const std::string& name);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_SUSPENSION_H_
