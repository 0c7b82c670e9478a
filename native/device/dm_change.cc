// Creates, changes and removes devices; see dm_device.h.
#include <algorithm>

#include "native/device/dm_device.h"
#include "native/device/dm_status.h"

namespace blockdelta {
namespace {

// Retries of a removal while udev or a device scan has the device open.
constexpr int kRemoveTries = 50;
constexpr unsigned kRemovePauseMs = 20;

uint32_t FlagsOf(const DmSuspension& suspension) {
  uint32_t flags = 0;
  if (suspension.no_flush) flags |= DM_NOFLUSH_FLAG;
  if (!suspension.lock_file_system) flags |= DM_SKIP_LOCKFS_FLAG;
  return flags;
}

Status CheckTable(const std::string& name, const DmTable& table) {
  RETURN_IF_ERROR(CheckDmName(name));
  const char* problem = nullptr;
  if (table.type.empty() || table.type.size() > kMaxTargetType) {
    problem = "the target type must have 1 to 15 bytes";
  }
  if (table.size_sectors == 0 || table.size_sectors > kMaxSectors) {
    problem = "the size must be from 1 sector to 2^63 - 1 bytes";
  }
  if (table.parameters.size() > 4096) problem = "the table must have at most 4096 bytes";
  if (table.parameters.find('\0') != std::string::npos ||
      table.type.find('\0') != std::string::npos) {
    problem = "the table must not contain NUL bytes";
  }
  if (problem == nullptr) return Status();
  return Status::Errno(EINVAL, "DM_TABLE_LOAD", name, problem);
}

Status LoadTargets(const DmControl& control, const std::string& name, bool read_only,
                   const std::vector<DmTarget>& targets) {
  const uint32_t flags = read_only ? DM_READONLY_FLAG : 0;
  return control
      .Call({DM_TABLE_LOAD, "DM_TABLE_LOAD", name, "", flags, static_cast<uint32_t>(targets.size()),
             EncodeTargets(targets)})
      .TakeStatus();
}

Status LoadTable(const DmControl& control, const std::string& name, const DmTable& table) {
  return LoadTargets(control, name, table.read_only,
                     {{table.type, 0, table.size_sectors, table.parameters}});
}

// Resumes the device; an inactive table becomes the live one.
Status MakeLive(const DmControl& control, const std::string& name) {
  return control.Call({DM_DEV_SUSPEND, "DM_DEV_SUSPEND", name, "", DM_SKIP_LOCKFS_FLAG, 0, {}})
      .TakeStatus();
}

Status ClearInactive(const DmControl& control, const std::string& name) {
  return control.Call({DM_TABLE_CLEAR, "DM_TABLE_CLEAR", name, "", 0, 0, {}}).TakeStatus();
}

// Restores the old table after a failed change. The kernel may have kept the old table, or made the
// new one live and then failed to resume it; either way the device is suspended.
Status Restore(const DmControl& control, const DmDevice& old) {
  RETURN_IF_ERROR(ClearInactive(control, old.name));
  if (old.targets.empty()) return Status();
  Result<DmDevice> now = DescribeDm(control, old.name);
  RETURN_IF_ERROR(now);
  const auto is_same = [](const DmTarget& a, const DmTarget& b) {
    return a.type == b.type && a.length_sectors == b.length_sectors && a.text == b.text;
  };
  const bool is_old = now->read_only == old.read_only &&
                      std::equal(now->targets.begin(), now->targets.end(), old.targets.begin(),
                                 old.targets.end(), is_same);
  if (!is_old) {
    RETURN_IF_ERROR(LoadTargets(control, old.name, old.read_only, old.targets));
  }
  return MakeLive(control, old.name);
}

}  // namespace

Result<DmDevice> CreateDm(const DmControl& control, const DmName& name, const DmTable& table) {
  Status status = CheckTable(name.name, table);
  if (!status.ok()) return status;
  status =
      control.Call({DM_DEV_CREATE, "DM_DEV_CREATE", name.name, name.uuid, 0, 0, {}}).TakeStatus();
  if (status.IsErrno(EBUSY)) {
    return Status::Errno(EEXIST, "DM_DEV_CREATE", name.name, "the name or uuid is already in use");
  }
  if (!status.ok()) return status;
  status = LoadTable(control, name.name, table);
  if (status.ok()) status = MakeLive(control, name.name);
  if (status.ok()) {
    Result<DmDevice> device = DescribeDm(control, name.name);
    if (device.ok()) return device;
    status = device.TakeStatus();
  }
  static_cast<void>(RemoveDm(control, name.name, false));
  return status;
}

Result<DmDevice> ReloadDm(const DmControl& control, const std::string& name, const DmTable& table,
                          const DmSuspension& suspension) {
  Status status = CheckTable(name, table);
  if (!status.ok()) return status;
  Result<DmDevice> old = DescribeDm(control, name);
  if (!old.ok()) return old;
  status = LoadTable(control, name, table);
  if (status.ok()) status = SuspendDm(control, name, suspension);
  if (status.ok()) status = MakeLive(control, name);
  if (status.ok()) return DescribeDm(control, name);
  Status restored = Restore(control, *old);
  if (restored.ok()) return status;
  return Status::Errno(status.failure().error, status.failure().syscall.c_str(), name,
                       "and the old table could not be restored: " + restored.failure().Message());
}

Status SuspendDm(const DmControl& control, const std::string& name,
                 const DmSuspension& suspension) {
  RETURN_IF_ERROR(CheckDmName(name));
  const uint32_t flags = DM_SUSPEND_FLAG | FlagsOf(suspension);
  return control.Call({DM_DEV_SUSPEND, "DM_DEV_SUSPEND", name, "", flags, 0, {}}).TakeStatus();
}

Result<bool> ResumeDm(const DmControl& control, const std::string& name) {
  RETURN_IF_ERROR(CheckDmName(name));
  Result<DmReply> before = control.Call({DM_DEV_STATUS, "DM_DEV_STATUS", name, "", 0, 0, {}});
  RETURN_IF_ERROR(before);
  if (!before->Has(DM_SUSPEND_FLAG)) return false;
  RETURN_IF_ERROR(MakeLive(control, name));
  return true;
}

Result<bool> RemoveDm(const DmControl& control, const std::string& name, bool deferred) {
  RETURN_IF_ERROR(CheckDmName(name));
  for (int tries = 1;; tries++) {
    const bool is_last = tries == kRemoveTries;
    const uint32_t flags = is_last && deferred ? DM_DEFERRED_REMOVE : 0;
    Result<DmReply> reply = control.Call({DM_DEV_REMOVE, "DM_DEV_REMOVE", name, "", flags, 0, {}});
    if (reply.status().IsErrno(ENXIO)) return false;
    // The kernel leaves the flag set if it deferred the removal.
    if (reply.ok()) return !reply->Has(DM_DEFERRED_REMOVE);
    if (!reply.status().IsErrno(EBUSY) || is_last) return reply.TakeStatus();
    SleepMs(kRemovePauseMs);
  }
}

}  // namespace blockdelta
