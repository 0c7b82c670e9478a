// Snapshots of thin devices at one point in time; see dm_thin.h.
#include <sys/sysmacros.h>
#include <time.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "native/device/dm_device.h"
#include "native/device/dm_thin.h"
#include "native/device/mount_point.h"

namespace blockdelta {
namespace {

// An active origin. Each origin has its own guardian, so that a suspension that hangs does not keep
// another origin suspended.
struct Origin {
  DmDevice device;
  uint32_t id;
  Guardian guardian;
  // True before Linux 6.8 if another program froze the file system: only the device is suspended.
  bool is_frozen_by_another = false;
};

dev_t NumberOf(const DmDevice& device) { return makedev(device.major, device.minor); }

std::string Message(const char* verb, uint32_t id) { return verb + (" " + std::to_string(id)); }

Status CheckMembers(const std::string& pool, const std::vector<NewThinSnapshot>& members) {
  std::set<uint32_t> ids;
  for (const NewThinSnapshot& member : members) {
    const bool is_new = ids.insert(member.snapshot_id).second;
    if (!is_new || member.snapshot_id > kMaxThinId || member.origin_id > kMaxThinId) {
      return Status::Errno(EINVAL, "takeThinSnapshots", pool,
                           "a snapshot id appears twice, or an id is above 2^24 - 1");
    }
  }
  if (ids.empty()) return Status::Errno(EINVAL, "takeThinSnapshots", pool, "no members");
  return Status();
}

// Finds thin device `origin_id` of the pool by its name. EBUSY if it is suspended.
Result<DmDevice> FindOrigin(const DmControl& control, const DmDevice& pool, const std::string& name,
                            uint32_t origin_id) {
  Result<DmDevice> device = DescribeDm(control, name);
  if (!device.ok()) return device;
  if (device->suspended) {
    return Status::Errno(EBUSY, "takeThinSnapshots", name,
                         "it is already suspended by another process");
  }
  if (device->targets.size() == 1 && device->targets[0].type == "thin") {
    Result<ThinTable> table = ParseThinTable(device->targets[0].text);
    RETURN_IF_ERROR(table);
    if (table->pool_major == pool.major && table->pool_minor == pool.minor &&
        table->device_id == origin_id) {
      return device;
    }
  }
  return Status::Errno(ESTALE, "takeThinSnapshots", name,
                       "it is not device " + std::to_string(origin_id) + " of pool " + pool.name);
}

// Writes back what active origins hold in memory, which keeps their suspension short, and starts
// their guardians. Returns the origins by name, because two members may have the same origin.
Result<std::map<std::string, Origin>> PrepareOrigins(const DmControl& control, const DmDevice& pool,
                                                     const std::vector<NewThinSnapshot>& members,
                                                     const FreezeOptions& freezing,
                                                     uint64_t end_ns) {
  std::map<std::string, Origin> origins;
  for (const NewThinSnapshot& member : members) {
    if (!member.device_name.has_value()) continue;
    Result<DmDevice> device = FindOrigin(control, pool, *member.device_name, member.origin_id);
    RETURN_IF_ERROR(device);
    if (origins.count(device->name) != 0) continue;
    // The suspension writes back again and reports a failure.
    static_cast<void>(WriteBack(device->path, NumberOf(*device)));
    if (ClockNs(CLOCK_MONOTONIC) >= end_ns) {
      return Status::Errno(ETIMEDOUT, "syncfs", device->name);
    }
    Result<Guardian> guardian = Guardian::Start(freezing.guardian_socket);
    RETURN_IF_ERROR(guardian);
    const std::string name = device->name;
    origins.emplace(name, Origin{std::move(*device), member.origin_id, std::move(*guardian)});
  }
  return origins;
}

// Nothing if another program has frozen the file system, which older kernels report as EBUSY.
Result<std::optional<Freeze>> Suspend(const DmControl& control, Origin* origin) {
  Result<Freeze> suspension = Freeze::Suspend(&origin->guardian, control, origin->device);
  if (suspension.ok()) return std::optional<Freeze>(std::move(*suspension));
  if (!suspension.status().IsErrno(EBUSY)) return suspension.TakeStatus();
  Result<DmDevice> device = DescribeDm(control, origin->device.name);
  RETURN_IF_ERROR(device);
  if (device->suspended) return suspension.TakeStatus();
  return std::optional<Freeze>();
}

// Suspends all origins until `end_ns` at the latest.
Result<std::vector<Freeze>> SuspendAll(const DmControl& control, const DmDevice& pool,
                                       std::map<std::string, Origin>* origins, uint64_t end_ns) {
  std::vector<Freeze> suspensions;
  for (auto& [name, origin] : *origins) {
    // Check again, because write-back takes seconds.
    Result<DmDevice> device = FindOrigin(control, pool, name, origin.id);
    RETURN_IF_ERROR(device);
    RETURN_IF_ERROR(origin.guardian.Limit(end_ns));
    Result<std::optional<Freeze>> suspension = Suspend(control, &origin);
    RETURN_IF_ERROR(suspension);
    if (suspension->has_value()) {
      suspensions.push_back(std::move(**suspension));
      continue;
    }
    origin.is_frozen_by_another = true;
    // The other program's freeze may still wait for writers and have written nothing back.
    RETURN_IF_ERROR(WriteBack(device->path, NumberOf(*device)));
    Result<Freeze> alone =
        Freeze::Suspend(&origin.guardian, control, *device, guardian::Order::kSuspend);
    RETURN_IF_ERROR(alone);
    suspensions.push_back(std::move(*alone));
  }
  return suspensions;
}

// Called after the resume. SNAPSHOT_THAWED if a file system is not frozen by others any more.
Status CheckFrozen(const DmControl& control, std::map<std::string, Origin>* origins) {
  for (auto& [name, origin] : *origins) {
    if (!origin.is_frozen_by_another) continue;
    // A suspension that succeeds ends with this scope.
    Result<std::optional<Freeze>> suspension = Suspend(control, &origin);
    RETURN_IF_ERROR(suspension);
    if (!suspension->has_value()) continue;
    return Status::Reason(kSnapshotThawed, "takeThinSnapshots", name,
                          "another program thawed it meanwhile");
  }
  return Status();
}

// `made` receives the ids of snapshots that may exist, also after a failure.
Result<ThinPoolStatus> SnapAll(const DmControl& control, const std::string& pool,
                               const std::vector<NewThinSnapshot>& members,
                               std::vector<uint32_t>* made) {
  for (size_t i = 0;; i++) {
    const std::string message =
        Message("create_snap", members[i].snapshot_id) + " " + std::to_string(members[i].origin_id);
    Result<ThinPoolStatus> status = SendMessages(control, pool, {message});
    // An errno means that the snapshot was not created, or that the id is in use (EEXIST).
    if (status.ok() || status.status().Is(kThinPoolMode)) made->push_back(members[i].snapshot_id);
    if (!status.ok() || i + 1 == members.size()) return status;
  }
}

Status ResumeAll(std::vector<Freeze>* suspensions, uint64_t* longest_ns) {
  Status failure;
  for (Freeze& suspension : *suspensions) {
    Result<uint64_t> stood_ns = suspension.Thaw();
    if (stood_ns.ok()) {
      *longest_ns = std::max(*longest_ns, *stood_ns);
    } else if (failure.ok()) {
      failure = stood_ns.TakeStatus();
    }
  }
  return failure;
}

Status RequireWritable(const DmControl& control, const std::string& pool) {
  Result<std::optional<ThinPoolStatus>> status = PoolStatus(control, pool, false);
  RETURN_IF_ERROR(status);
  if (!status->has_value()) return Status::Errno(ENXIO, "DM_TABLE_STATUS", pool);
  if ((*status)->mode == ThinPoolMode::kReadWrite && !(*status)->needs_check) return Status();
  // Without data space, a file system may be unable to freeze and I/O may block for a minute.
  return Status::Reason(kThinPoolMode, "takeThinSnapshots", pool,
                        "thin pool " + pool + " is " + NameOf((*status)->mode));
}

}  // namespace

Result<TakenThinSnapshots> TakeThinSnapshots(const DmControl& control, const std::string& pool,
                                             const std::vector<NewThinSnapshot>& members,
                                             const FreezeOptions& freezing) {
  Status status = CheckMembers(pool, members);
  if (status.ok()) status = RequireWritable(control, pool);
  if (!status.ok()) return status;
  Result<DmDevice> pool_device = DescribeDm(control, pool);
  RETURN_IF_ERROR(pool_device);
  const uint64_t end_ns = freezing.EndNs();
  Result<std::map<std::string, Origin>> origins =
      PrepareOrigins(control, *pool_device, members, freezing, end_ns);
  RETURN_IF_ERROR(origins);
  const uint64_t limit_ns = ClockNs(CLOCK_MONOTONIC) + freezing.limit_ms * kNsPerMs;
  Result<std::vector<Freeze>> suspensions =
      SuspendAll(control, *pool_device, &*origins, std::min(end_ns, limit_ns));
  RETURN_IF_ERROR(suspensions);
  TakenThinSnapshots outcome;
  outcome.taken_at_ns = ClockNs(CLOCK_REALTIME);
  std::vector<uint32_t> made;
  Result<ThinPoolStatus> snapped = SnapAll(control, pool, members, &made);
  status = ResumeAll(&*suspensions, &outcome.suspended_ns);
  if (snapped.ok() && status.ok()) status = CheckFrozen(control, &*origins);
  if (snapped.ok() && status.ok()) {
    outcome.status = *snapped;
    return outcome;
  }
  for (const uint32_t id : made) {
    static_cast<void>(SendMessages(control, pool, {Message("delete", id)}));
  }
  return snapped.ok() ? std::move(status) : snapped.TakeStatus();
}

}  // namespace blockdelta
