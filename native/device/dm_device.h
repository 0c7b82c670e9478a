// Device-mapper devices: found, made, changed and removed by name.
//
// Numbers and nodes are told as they are now and never remembered: the kernel gives a minor to
// another device as soon as it is free. Serialize changes of one device: the kernel keeps two
// callers' tables apart no more than the order in which they come. ENXIO: there is no such device.
#ifndef BLOCKDELTA_NATIVE_DEVICE_DM_DEVICE_H_
#define BLOCKDELTA_NATIVE_DEVICE_DM_DEVICE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "native/device/dm_buffer.h"
#include "native/device/dm_control.h"

namespace blockdelta {

struct DmDevice {
  std::string name;
  std::string uuid;
  std::string path;
  uint32_t major = 0;
  uint32_t minor = 0;
  uint64_t size_bytes = 0;
  bool read_only = false;
  bool suspended = false;
  bool has_inactive_table = false;
  bool is_being_removed = false;
  uint64_t open_count = 0;
  uint32_t event_number = 0;
  std::vector<DmTarget> targets;
};

struct DmName {
  std::string name;
  std::string uuid;
};

// A table of one target from sector 0 on.
struct DmTable {
  bool read_only = false;
  uint64_t size_sectors = 0;
  std::string type;
  std::string parameters;
};

struct DmSuspension {
  bool no_flush = false;          // I/O in flight is held back instead of waited for.
  bool lock_file_system = false;  // Without effect where no_flush is set: the kernel cannot.
};

struct DmVersion {
  uint32_t major, minor, patch;
};

Result<DmVersion> InterfaceVersion(const DmControl& control);
// Loads the target's module if it can be.
Result<bool> HasTarget(const DmControl& control, const std::string& type);

// With its node, which is made if it is not there.
Result<DmDevice> DescribeDm(const DmControl& control, const std::string& name);
Result<std::optional<DmDevice>> FindDm(const DmControl& control, const std::string& name);
Result<std::vector<DmName>> ListDm(const DmControl& control, const std::string& prefix);

// EEXIST if the name or the uuid is taken. Nothing is left after a failure.
Result<DmDevice> CreateDm(const DmControl& control, const DmName& name, const DmTable& table);
// The old table is live again after a failure, unless the kernel does not take it back.
Result<DmDevice> ReloadDm(const DmControl& control, const std::string& name, const DmTable& table,
                          const DmSuspension& suspension);
Status SuspendDm(const DmControl& control, const std::string& name, const DmSuspension& suspension);
// Whether it was suspended.
Result<bool> ResumeDm(const DmControl& control, const std::string& name);
// Whether it was there and is gone. EBUSY after a second of tries; with `deferred` the kernel then
// removes it at its last close.
Result<bool> RemoveDm(const DmControl& control, const std::string& name, bool deferred);

// Waits until the event number is another than `event_number`; answers what it is, that one after
// the time-out.
Result<uint32_t> WaitForEvent(const DmControl& control, const std::string& name,
                              uint32_t event_number, uint32_t timeout_ms);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_DM_DEVICE_H_
