#include "native/device/dm_device.h"

#include <stdio.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <utility>

#include "native/device/dm_status.h"

namespace blockdelta {
namespace {

constexpr mode_t kNodeMode = S_IFBLK | 0660;

// Returns the path of the device's node, /dev/dm-N. Creates the node if devtmpfs and udev do not,
// and replaces anything else at its path.
Result<std::string> EnsureDmNode(dev_t device) {
  const std::string path = "/dev/dm-" + std::to_string(minor(device));
  Result<struct stat> state = StatPath(path);
  if (state.ok() && S_ISBLK(state->st_mode) && state->st_rdev == device) return path;
  if (!state.ok() && !state.status().IsErrno(ENOENT)) return state.TakeStatus();
  // The node is renamed into place, so that the path always has a valid node.
  const std::string temporary = path + ".new-" + std::to_string(gettid());
  static_cast<void>(UnlinkPath(temporary));
  if (mknod(temporary.c_str(), kNodeMode, device) == -1) {
    return Status::Errno(errno, "mknod", temporary);
  }
  if (rename(temporary.c_str(), path.c_str()) == -1) {
    Status status = Status::Errno(errno, "rename", path);
    static_cast<void>(UnlinkPath(temporary));
    return status;
  }
  return path;
}

Result<DmDevice> ToDevice(const std::string& name, const DmReply& reply) {
  const struct dm_ioctl& header = reply.header;
  Result<std::vector<DmTarget>> targets = ParseTargets(reply.span(), header.target_count);
  RETURN_IF_ERROR(targets);
  Result<std::string> path = EnsureDmNode(header.dev);
  RETURN_IF_ERROR(path);
  DmDevice device;
  device.name = name;
  device.uuid = header.uuid;
  device.path = *path;
  device.major = major(header.dev);
  device.minor = minor(header.dev);
  for (const DmTarget& target : *targets) device.size_bytes += target.length_sectors * 512;
  device.read_only = reply.Has(DM_READONLY_FLAG);
  device.suspended = reply.Has(DM_SUSPEND_FLAG);
  device.has_inactive_table = reply.Has(DM_INACTIVE_PRESENT_FLAG);
  device.is_being_removed = reply.Has(DM_DEFERRED_REMOVE);
  device.open_count = static_cast<uint64_t>(std::max(header.open_count, 0));
  device.targets = std::move(*targets);
  return device;
}

}  // namespace

Result<DmVersion> InterfaceVersion(const DmControl& control) {
  Result<DmReply> reply = control.Call({DM_VERSION, "DM_VERSION", "", "", 0, 0, {}});
  RETURN_IF_ERROR(reply);
  const uint32_t* version = reply->header.version;
  return DmVersion{version[0], version[1], version[2]};
}

Result<bool> HasTarget(const DmControl& control, const std::string& type) {
  if (type.empty() || type.size() > kMaxTargetType) {
    return Status::Errno(EINVAL, "device-mapper", type, "a target type must have 1 to 15 bytes");
  }
  Result<DmReply> reply =
      control.Call({DM_GET_TARGET_VERSION, "DM_GET_TARGET_VERSION", type, "", 0, 0, {}});
  if (reply.ok()) return true;
  if (reply.status().IsErrno(EINVAL)) return false;
  if (!reply.status().IsErrno(ENOTTY)) return reply.TakeStatus();
  // Kernels before 5.4 only list registered targets and load no module.
  reply = control.Call({DM_LIST_VERSIONS, "DM_LIST_VERSIONS", "", "", 0, 0, {}});
  RETURN_IF_ERROR(reply);
  Result<std::vector<std::string>> types = ParseTargetTypes(reply->span());
  RETURN_IF_ERROR(types);
  return std::find(types->begin(), types->end(), type) != types->end();
}

Result<DmDevice> DescribeDm(const DmControl& control, const std::string& name) {
  RETURN_IF_ERROR(CheckDmName(name));
  // One call returns a consistent view.
  Result<DmReply> reply = control.Call({DM_TABLE_STATUS,
                                        "DM_TABLE_STATUS",
                                        name,
                                        "",
                                        DM_STATUS_TABLE_FLAG | DM_NOFLUSH_FLAG,
                                        0,
                                        {}});
  RETURN_IF_ERROR(reply);
  return ToDevice(name, *reply);
}

Result<std::optional<DmDevice>> FindDm(const DmControl& control, const std::string& name) {
  Result<DmDevice> device = DescribeDm(control, name);
  if (device.status().IsErrno(ENXIO)) return std::optional<DmDevice>();
  RETURN_IF_ERROR(device);
  return std::optional<DmDevice>(std::move(*device));
}

Result<std::vector<DmName>> ListDm(const DmControl& control, const std::string& prefix) {
  Result<DmReply> reply = control.Call({DM_LIST_DEVICES, "DM_LIST_DEVICES", "", "", 0, 0, {}});
  RETURN_IF_ERROR(reply);
  Result<std::vector<std::string>> names = ParseDeviceNames(reply->span());
  RETURN_IF_ERROR(names);
  std::vector<DmName> devices;
  for (std::string& name : *names) {
    if (name.compare(0, prefix.size(), prefix) != 0) continue;
    // The list contains uuids only since Linux 5.11.
    reply = control.Call({DM_DEV_STATUS, "DM_DEV_STATUS", name, "", 0, 0, {}});
    if (reply.status().IsErrno(ENXIO)) continue;  // Removed meanwhile.
    RETURN_IF_ERROR(reply);
    devices.push_back({std::move(name), reply->header.uuid});
  }
  return devices;
}

}  // namespace blockdelta
