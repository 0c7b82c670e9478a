// Finds, creates, changes and removes device-mapper devices by name.
//
// Minor numbers and nodes are valid only at the time of a call: the kernel reuses a freed minor at
// once. The caller serializes changes to one device: the kernel does not keep the inactive tables
// of two callers apart. ENXIO if there is no such device.
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
  bool no_flush = false;  // Queue I/O in flight instead of waiting for it.
  bool lock_file_system =
      false;  // Freeze a mounted file system; the kernel ignores it with no_flush.
};

struct DmVersion {
  uint32_t major, minor, patch;
};

Result<DmVersion> InterfaceVersion(const DmControl& control);
// Whether the kernel has the target. Loads its module if possible.
Result<bool> HasTarget(const DmControl& control, const std::string& type);

// Also creates the device's node if it is missing.
Result<DmDevice> DescribeDm(const DmControl& control, const std::string& name);
Result<std::optional<DmDevice>> FindDm(const DmControl& control, const std::string& name);
Result<std::vector<DmName>> ListDm(const DmControl& control, const std::string& prefix);

// EEXIST if the name or uuid is in use. Leaves nothing after a failure.
Result<DmDevice> CreateDm(const DmControl& control, const DmName& name, const DmTable& table);
// After a failure the old table is live again, unless the kernel rejects it.
Result<DmDevice> ReloadDm(const DmControl& control, const std::string& name, const DmTable& table,
                          const DmSuspension& suspension);
Status SuspendDm(const DmControl& control, const std::string& name, const DmSuspension& suspension);
// False if the device was not suspended. A kill during the call can force a btrfs on the device
// read-only: see ResumeDevice() of freeze.h.
Result<bool> ResumeDm(const DmControl& control, const std::string& name);
// True if the device existed and is gone. EBUSY after a second of retries; with `deferred`, false
// instead, and the kernel removes the device at its last close.
Result<bool> RemoveDm(const DmControl& control, const std::string& name, bool deferred);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_DM_DEVICE_H_
