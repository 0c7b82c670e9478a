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
#include "native/device/guardian.h"
#include "native/device/mount_point.h"
#include "native/device/suspension.h"
#include "native/device/write_counters.h"

namespace blockdelta {
namespace {

// Time limit for retries while another program thaws what it has frozen.
constexpr uint64_t kTimeoutNs = 2'000'000'000;
constexpr int kMinTries = 2;
constexpr unsigned kPauseMs = 20;
constexpr uint64_t kNsPerMs = 1'000'000;

// An active origin. A suspension that hangs keeps no other origin from being resumed, so each has a
// guardian of its own.
struct Origin {
  DmDevice device;
  uint32_t id;
  Guardian guardian;
};

// An origin that stands still.
struct Still {
  Origin* origin;
  Suspension suspension;
  // Another program had frozen its file system, so it was suspended alone. That is its moment if
  // nothing was written around it: then the file system has been frozen all the time, and had
  // written everything back (standstill.h has the argument).
  bool is_frozen_by_another;
  std::optional<WriteCounters> before;
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

// The thin device of that id in the pool, if it is not suspended.
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
// their guardians. Two members may have the same origin. By name.
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
    // A failure shows when the device is suspended, which writes back again.
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

// Whether the suspension of an origin fails because another program has frozen its file system,
// which the kernel reports as EBUSY before Linux 6.8. If that succeeds, the origin is resumed
// again.
Result<bool> IsFrozenByAnother(const DmControl& control, Origin* origin) {
  Result<Suspension> suspension = Suspension::Begin(control, &origin->guardian, origin->device);
  if (suspension.ok()) return false;
  if (!suspension.status().IsErrno(EBUSY)) return suspension.TakeStatus();
  Result<DmDevice> device = DescribeDm(control, origin->device.name);
  RETURN_IF_ERROR(device);
  if (device->suspended) return suspension.TakeStatus();
  return true;
}

Result<Still> Hold(const DmControl& control, Origin* origin) {
  Result<Suspension> suspension = Suspension::Begin(control, &origin->guardian, origin->device);
  if (suspension.ok()) return Still{origin, std::move(*suspension), false, std::nullopt};
  if (!suspension.status().IsErrno(EBUSY)) return suspension.TakeStatus();
  Result<bool> is_frozen = IsFrozenByAnother(control, origin);
  RETURN_IF_ERROR(is_frozen);
  if (!*is_frozen) return suspension.TakeStatus();
  const dev_t number = NumberOf(origin->device);
  RETURN_IF_ERROR(WriteBack(origin->device.path, number));
  Result<Suspension> alone = Suspension::Begin(control, &origin->guardian, origin->device, false);
  RETURN_IF_ERROR(alone);
  Result<std::optional<WriteCounters>> before = ReadWriteCounters(number);
  RETURN_IF_ERROR(before);
  return Still{origin, std::move(*alone), true, *before};
}

// Suspends all origins, until `end_ns` at the longest.
Result<std::vector<Still>> SuspendAll(const DmControl& control, const DmDevice& pool,
                                      std::map<std::string, Origin>* origins, size_t members,
                                      uint64_t end_ns) {
  std::vector<Still> stills;
  for (auto& [name, origin] : *origins) {
    // Checked again: write-back takes seconds.
    Result<DmDevice> device = FindOrigin(control, pool, name, origin.id);
    RETURN_IF_ERROR(device);
    RETURN_IF_ERROR(origin.guardian.Limit(end_ns));
    Result<Still> still = Hold(control, &origin);
    RETURN_IF_ERROR(still);
    if (still->is_frozen_by_another && !still->before.has_value() && members > 1) {
      return Status::Reason(kSnapshotUncounted, "takeThinSnapshots", name,
                            "its device does not count writes (queue/iostats is 0)");
    }
    stills.push_back(std::move(*still));
  }
  return stills;
}

// After they were resumed: the first origin that another program has thawed meanwhile, or may have;
// null: none.
Result<const Origin*> FindThawed(const DmControl& control, const std::vector<Still>& stills) {
  for (const Still& still : stills) {
    if (!still.is_frozen_by_another) continue;
    Origin* const origin = still.origin;
    const dev_t number = NumberOf(origin->device);
    RETURN_IF_ERROR(WriteBack(origin->device.path, number));
    Result<bool> in_flight = HasWriteInFlight(number);
    RETURN_IF_ERROR(in_flight);
    Result<std::optional<WriteCounters>> after = ReadWriteCounters(number);
    RETURN_IF_ERROR(after);
    Result<bool> is_frozen = IsFrozenByAnother(control, origin);
    RETURN_IF_ERROR(is_frozen);
    if (*in_flight || !(*after == still.before) || !*is_frozen) {
      return static_cast<const Origin*>(origin);
    }
  }
  return static_cast<const Origin*>(nullptr);
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

Status ResumeAll(std::vector<Still>* stills, uint64_t* longest_ns) {
  Status failure;
  for (Still& still : *stills) {
    Result<uint64_t> stood_ns = still.suspension.Resume();
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

// One try. Nothing: another program thawed `thawed` meanwhile, and no snapshot is left.
Result<std::optional<TakenThinSnapshots>> Try(const DmControl& control, const DmDevice& pool,
                                              const std::vector<NewThinSnapshot>& members,
                                              std::map<std::string, Origin>* origins,
                                              uint64_t end_ns, std::string* thawed) {
  Result<std::vector<Still>> stills = SuspendAll(control, pool, origins, members.size(), end_ns);
  RETURN_IF_ERROR(stills);
  TakenThinSnapshots outcome;
  outcome.taken_at_ns = ClockNs(CLOCK_REALTIME);
  std::vector<uint32_t> made;
  Result<ThinPoolStatus> snapped = SnapAll(control, pool.name, members, &made);
  Status status = ResumeAll(&*stills, &outcome.suspended_ns);
  Result<const Origin*> found = static_cast<const Origin*>(nullptr);
  if (snapped.ok() && status.ok()) found = FindThawed(control, *stills);
  if (status.ok()) status = TakeFailure(found);
  if (snapped.ok() && status.ok() && *found == nullptr) {
    outcome.status = *snapped;
    return std::optional<TakenThinSnapshots>(outcome);
  }
  for (const uint32_t id : made) {
    static_cast<void>(SendMessages(control, pool.name, {Message("delete", id)}));
  }
  if (!snapped.ok()) return snapped.TakeStatus();
  if (!status.ok()) return status;
  *thawed = (*found)->device.name;
  return std::optional<TakenThinSnapshots>();
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
  const uint64_t last_ns = std::min(end_ns, ClockNs(CLOCK_MONOTONIC) + kTimeoutNs);
  for (int tries = 1;; tries++) {
    const uint64_t limit_ns = ClockNs(CLOCK_MONOTONIC) + freezing.limit_ms * kNsPerMs;
    std::string thawed;
    Result<std::optional<TakenThinSnapshots>> outcome =
        Try(control, *pool_device, members, &*origins, std::min(end_ns, limit_ns), &thawed);
    RETURN_IF_ERROR(outcome);
    if (outcome->has_value()) return **outcome;
    if (tries >= kMinTries && ClockNs(CLOCK_MONOTONIC) >= last_ns) {
      return Status::Reason(kSnapshotThawed, "takeThinSnapshots", thawed,
                            "another program thawed or froze it each time");
    }
    SleepMs(kPauseMs);
  }
}

}  // namespace blockdelta
