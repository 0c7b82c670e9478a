#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "native/binding/freezing.h"
#include "native/binding/functions.h"
#include "native/binding/values.h"
#include "native/device/dm_device.h"
#include "native/device/dm_thin.h"
#include "native/device/suspension.h"

namespace blockdelta {
namespace {

// A wait occupies a worker thread.
constexpr uint32_t kMaxWaitMs = 60'000;

Napi::Object ToObject(Napi::Env env, const DmTarget& target) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("type", Napi::String::New(env, target.type));
  SetBigInt(&object, "startSectors", target.start_sectors);
  SetBigInt(&object, "lengthSectors", target.length_sectors);
  object.Set("table", Napi::String::New(env, target.text));
  return object;
}

Napi::Object ToObject(Napi::Env env, const DmDevice& device) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("name", Napi::String::New(env, device.name));
  object.Set("uuid", Napi::String::New(env, device.uuid));
  object.Set("path", Napi::String::New(env, device.path));
  SetNumber(&object, "major", device.major);
  SetNumber(&object, "minor", device.minor);
  SetBigInt(&object, "sizeBytes", device.size_bytes);
  SetBoolean(&object, "readOnly", device.read_only);
  SetBoolean(&object, "suspended", device.suspended);
  SetBoolean(&object, "hasInactiveTable", device.has_inactive_table);
  SetBoolean(&object, "isBeingRemoved", device.is_being_removed);
  SetNumber(&object, "openCount", device.open_count);
  SetNumber(&object, "eventNumber", device.event_number);
  Napi::Array targets = Napi::Array::New(env, device.targets.size());
  for (size_t i = 0; i < device.targets.size(); i++) {
    targets.Set(static_cast<uint32_t>(i), ToObject(env, device.targets[i]));
  }
  object.Set("targets", targets);
  return object;
}

const char* ModeText(ThinPoolMode mode) {
  switch (mode) {
    case ThinPoolMode::kFail:
      return "fail";
    case ThinPoolMode::kError:
      return "error";
    default:
      return NameOf(mode);
  }
}

const char* DiscardsText(ThinPoolDiscards discards) {
  switch (discards) {
    case ThinPoolDiscards::kPassdown:
      return "discard_passdown";
    case ThinPoolDiscards::kNoPassdown:
      return "no_discard_passdown";
    case ThinPoolDiscards::kIgnore:
      break;
  }
  return "ignore_discard";
}

Napi::Object ToObject(Napi::Env env, const ThinPoolStatus& status) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("mode", Napi::String::New(env, ModeText(status.mode)));
  SetBigInt(&object, "transactionId", status.transaction_id);
  SetBigInt(&object, "usedMetadataBlocks", status.used_metadata_blocks);
  SetBigInt(&object, "totalMetadataBlocks", status.total_metadata_blocks);
  SetBigInt(&object, "usedDataBlocks", status.used_data_blocks);
  SetBigInt(&object, "totalDataBlocks", status.total_data_blocks);
  if (status.held_root.has_value()) {
    SetBigInt(&object, "heldRoot", *status.held_root);
  } else {
    object.Set("heldRoot", env.Null());
  }
  object.Set("discards", Napi::String::New(env, DiscardsText(status.discards)));
  object.Set("whenFull", Napi::String::New(env, status.errors_when_full ? "error_if_no_space"
                                                                        : "queue_if_no_space"));
  SetBoolean(&object, "needsCheck", status.needs_check);
  SetBigInt(&object, "metadataLowWaterBlocks", status.metadata_low_water_blocks);
  return object;
}

Napi::Object ToObject(Napi::Env env, const ThinStatus& status) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("mode", Napi::String::New(env, status.is_failed ? "fail" : "ok"));
  SetBigInt(&object, "mappedSectors", status.mapped_sectors);
  return object;
}

// { ok: true, [name]: value }
template <typename T>
Napi::Value ObjectResult(Napi::Env env, const char* name, const T& value) {
  Napi::Object object = Success(env);
  object.Set(name, ToObject(env, value));
  return object;
}

template <typename T>
Napi::Value ObjectResult(Napi::Env env, const char* name, const std::optional<T>& value) {
  if (value.has_value()) return ObjectResult(env, name, *value);
  Napi::Object object = Success(env);
  object.Set(name, env.Null());
  return object;
}

// Opens device-mapper and calls `work` with it, unless the request is invalid. `work` returns a
// Result; `to_value` converts its value to JavaScript.
template <typename Work, typename ToValue>
Napi::Value Run(Napi::Env env, const Fields& request, Work work, ToValue to_value) {
  if (!request.ok()) return Failed(env, request.TakeStatus());
  Result<DmControl> control = DmControl::Open();
  if (!control.ok()) return Failed(env, control.status());
  auto result = work(*control);
  if (!result.ok()) return Failed(env, result.status());
  return to_value(*result);
}

DmTable ReadTable(Fields* request) {
  DmTable table;
  table.read_only = request->Boolean("readOnly");
  table.size_sectors = request->Bytes("sizeSectors");
  table.type = request->String("type");
  table.parameters = request->String("table");
  return table;
}

DmSuspension ReadSuspension(Fields* request) {
  DmSuspension suspension;
  suspension.no_flush = request->Boolean("noFlush");
  suspension.lock_file_system = request->Boolean("lockFileSystem");
  return suspension;
}

std::vector<NewThinSnapshot> ReadMembers(Fields* request) {
  std::vector<NewThinSnapshot> members;
  for (Fields& fields : request->Objects("members")) {
    NewThinSnapshot member;
    member.device_name = fields.StringOrNull("deviceName");
    member.origin_id = static_cast<uint32_t>(fields.Integer("originId", kMaxThinId));
    member.snapshot_id = static_cast<uint32_t>(fields.Integer("snapshotId", kMaxThinId));
    request->TakeProblem(fields);
    members.push_back(std::move(member));
  }
  return members;
}

}  // namespace

Napi::Value DmVersionBinding(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return Run(env, Fields(info[0], "dmVersion"), InterfaceVersion, [&](const DmVersion& version) {
    Napi::Object object = Success(env);
    SetNumber(&object, "major", version.major);
    SetNumber(&object, "minor", version.minor);
    SetNumber(&object, "patch", version.patch);
    return object;
  });
}

Napi::Value DmHasTargetBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "dmHasTarget");
  const std::string type = request.String("type");
  return Run(
      info.Env(), request, [&](const DmControl& control) { return HasTarget(control, type); },
      [&](bool present) { return BooleanResult(info.Env(), "present", present); });
}

Napi::Value DmFindBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "dmFind");
  const std::string name = request.String("name");
  return Run(
      info.Env(), request, [&](const DmControl& control) { return FindDm(control, name); },
      [&](const auto& device) { return ObjectResult(info.Env(), "device", device); });
}

Napi::Value DmListBinding(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Fields request(info[0], "dmList");
  const std::string prefix = request.String("prefix");
  return Run(
      env, request, [&](const DmControl& control) { return ListDm(control, prefix); },
      [&](const std::vector<DmName>& names) {
        Napi::Array array = Napi::Array::New(env, names.size());
        for (size_t i = 0; i < names.size(); i++) {
          Napi::Object device = Napi::Object::New(env);
          device.Set("name", Napi::String::New(env, names[i].name));
          device.Set("uuid", Napi::String::New(env, names[i].uuid));
          array.Set(static_cast<uint32_t>(i), device);
        }
        Napi::Object object = Success(env);
        object.Set("devices", array);
        return object;
      });
}

Napi::Value DmCreateBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "dmCreate");
  const DmName name = {request.String("name"), request.String("uuid")};
  const DmTable table = ReadTable(&request);
  return Run(
      info.Env(), request, [&](const DmControl& control) { return CreateDm(control, name, table); },
      [&](const DmDevice& device) { return ObjectResult(info.Env(), "device", device); });
}

Napi::Value DmReloadBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "dmReload");
  const std::string name = request.String("name");
  const DmTable table = ReadTable(&request);
  const DmSuspension suspension = ReadSuspension(&request);
  return Run(
      info.Env(), request,
      [&](const DmControl& control) { return ReloadDm(control, name, table, suspension); },
      [&](const DmDevice& device) { return ObjectResult(info.Env(), "device", device); });
}

Napi::Value DmSuspendBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "dmSuspend");
  const std::string name = request.String("name");
  const DmSuspension suspension = ReadSuspension(&request);
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  Result<DmControl> control = DmControl::Open();
  if (!control.ok()) return Failed(info.Env(), control.status());
  return StatusResult(info.Env(), SuspendDm(*control, name, suspension));
}

Napi::Value DmResumeBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "dmResume");
  const std::string name = request.String("name");
  return Run(
      info.Env(), request, [&](const DmControl& control) { return ResumeDevice(control, name); },
      [&](bool resumed) { return BooleanResult(info.Env(), "resumed", resumed); });
}

Napi::Value DmRemoveBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "dmRemove");
  const std::string name = request.String("name");
  const bool deferred = request.Boolean("deferred");
  return Run(
      info.Env(), request,
      [&](const DmControl& control) { return RemoveDm(control, name, deferred); },
      [&](bool removed) { return BooleanResult(info.Env(), "removed", removed); });
}

Napi::Value DmWaitBinding(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Fields request(info[0], "dmWait");
  const std::string name = request.String("name");
  const auto last = static_cast<uint32_t>(request.Integer("eventNumber", UINT32_MAX));
  const auto timeout_ms = static_cast<uint32_t>(request.Integer("timeoutMs", kMaxWaitMs));
  return Run(
      env, request,
      [&](const DmControl& control) { return WaitForEvent(control, name, last, timeout_ms); },
      [&](uint32_t number) {
        Napi::Object object = Success(env);
        SetNumber(&object, "eventNumber", number);
        SetBoolean(&object, "isTimedOut", number == last);
        return object;
      });
}

Napi::Value ThinPoolStatusBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "thinPoolStatus");
  const std::string name = request.String("name");
  const bool commit = request.Boolean("commit");
  return Run(
      info.Env(), request,
      [&](const DmControl& control) { return PoolStatus(control, name, commit); },
      [&](const auto& status) { return ObjectResult(info.Env(), "status", status); });
}

Napi::Value ThinStatusBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "thinStatus");
  const std::string name = request.String("name");
  return Run(
      info.Env(), request, [&](const DmControl& control) { return DeviceStatus(control, name); },
      [&](const auto& status) { return ObjectResult(info.Env(), "status", status); });
}

Napi::Value ThinMessagesBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "thinMessages");
  const std::string pool = request.String("pool");
  const std::vector<std::string> messages = request.Strings("messages");
  return Run(
      info.Env(), request,
      [&](const DmControl& control) { return SendMessages(control, pool, messages); },
      [&](const ThinPoolStatus& status) { return ObjectResult(info.Env(), "status", status); });
}

Napi::Value TakeThinSnapshotsBinding(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Fields request(info[0], "takeThinSnapshots");
  const std::string pool = request.String("pool");
  const std::vector<NewThinSnapshot> members = ReadMembers(&request);
  const FreezeOptions freezing = ReadFreezing(&request);
  return Run(
      env, request,
      [&](const DmControl& control) { return TakeThinSnapshots(control, pool, members, freezing); },
      [&](const TakenThinSnapshots& outcome) {
        Napi::Object object = Success(env);
        SetBigInt(&object, "takenAtNs", outcome.taken_at_ns);
        SetBigInt(&object, "suspendedNs", outcome.suspended_ns);
        object.Set("status", ToObject(env, outcome.status));
        return object;
      });
}

}  // namespace blockdelta
