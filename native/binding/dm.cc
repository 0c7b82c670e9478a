#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "native/binding/functions.h"
#include "native/binding/requests.h"
#include "native/binding/values.h"
#include "native/device/dm_device.h"
#include "native/device/dm_thin.h"
#include "native/device/freeze.h"

namespace blockdelta {

namespace {

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

}  // namespace

static Napi::Value ToValue(Napi::Env env, const DmName& name) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("name", Napi::String::New(env, name.name));
  object.Set("uuid", Napi::String::New(env, name.uuid));
  return object;
}

static Napi::Value ToValue(Napi::Env env, const DmTarget& target) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("type", Napi::String::New(env, target.type));
  SetBigInt(&object, "startSectors", target.start_sectors);
  SetBigInt(&object, "lengthSectors", target.length_sectors);
  object.Set("table", Napi::String::New(env, target.text));
  return object;
}

static Napi::Value ToValue(Napi::Env env, const DmDevice& device) {
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
  object.Set("targets", ToValue(env, device.targets));
  return object;
}

static Napi::Value ToValue(Napi::Env env, const ThinPoolStatus& status) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("mode", Napi::String::New(env, ModeText(status.mode)));
  SetBigInt(&object, "transactionId", status.transaction_id);
  SetBigInt(&object, "usedMetadataBlocks", status.used_metadata_blocks);
  SetBigInt(&object, "totalMetadataBlocks", status.total_metadata_blocks);
  SetBigInt(&object, "usedDataBlocks", status.used_data_blocks);
  SetBigInt(&object, "totalDataBlocks", status.total_data_blocks);
  object.Set("heldRoot", ToValue(env, status.held_root));
  object.Set("discards", Napi::String::New(env, DiscardsText(status.discards)));
  object.Set("whenFull", Napi::String::New(env, status.errors_when_full ? "error_if_no_space"
                                                                        : "queue_if_no_space"));
  SetBoolean(&object, "needsCheck", status.needs_check);
  SetBigInt(&object, "metadataLowWaterBlocks", status.metadata_low_water_blocks);
  return object;
}

namespace {

// Returns a function that opens device-mapper and calls `work` with it.
template <typename Work>
auto WithControl(Work work) {
  return [work]() -> decltype(work(std::declval<const DmControl&>())) {
    Result<DmControl> control = DmControl::Open();
    RETURN_IF_ERROR(control);
    return work(*control);
  };
}

template <typename Work>
Napi::Value AnswerDm(const Fields* request, const char* name, Work work) {
  return AnswerValue(request, name, WithControl(work));
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

Napi::Value DmVersionBinding(Fields* request) {
  return Answer(request, WithControl(InterfaceVersion),
                [](Napi::Object* answer, const DmVersion& version) {
                  SetNumber(answer, "major", version.major);
                  SetNumber(answer, "minor", version.minor);
                  SetNumber(answer, "patch", version.patch);
                });
}

Napi::Value DmHasTargetBinding(Fields* request) {
  const std::string type = request->String("type");
  return AnswerDm(request, "present", [&](const auto& dm) { return HasTarget(dm, type); });
}

Napi::Value DmFindBinding(Fields* request) {
  const std::string name = request->String("name");
  return AnswerDm(request, "device", [&](const auto& dm) { return FindDm(dm, name); });
}

Napi::Value DmListBinding(Fields* request) {
  const std::string prefix = request->String("prefix");
  return AnswerDm(request, "devices", [&](const auto& dm) { return ListDm(dm, prefix); });
}

Napi::Value DmCreateBinding(Fields* request) {
  const DmName name = {request->String("name"), request->String("uuid")};
  const DmTable table = ReadTable(request);
  return AnswerDm(request, "device", [&](const auto& dm) { return CreateDm(dm, name, table); });
}

Napi::Value DmReloadBinding(Fields* request) {
  const std::string name = request->String("name");
  const DmTable table = ReadTable(request);
  const DmSuspension suspension = ReadSuspension(request);
  return AnswerDm(request, "device",
                  [&](const auto& dm) { return ReloadDm(dm, name, table, suspension); });
}

Napi::Value DmSuspendBinding(Fields* request) {
  const std::string name = request->String("name");
  const DmSuspension suspension = ReadSuspension(request);
  return AnswerStatus(request,
                      WithControl([&](const auto& dm) { return SuspendDm(dm, name, suspension); }));
}

Napi::Value DmResumeBinding(Fields* request) {
  const std::string name = request->String("name");
  return AnswerDm(request, "resumed", [&](const auto& dm) { return ResumeDevice(dm, name); });
}

Napi::Value DmRemoveBinding(Fields* request) {
  const std::string name = request->String("name");
  const bool deferred = request->Boolean("deferred");
  return AnswerDm(request, "removed", [&](const auto& dm) { return RemoveDm(dm, name, deferred); });
}

Napi::Value ThinPoolStatusBinding(Fields* request) {
  const std::string name = request->String("name");
  const bool commit = request->Boolean("commit");
  return AnswerDm(request, "status", [&](const auto& dm) { return PoolStatus(dm, name, commit); });
}

Napi::Value ThinMessagesBinding(Fields* request) {
  const std::string pool = request->String("pool");
  const std::vector<std::string> messages = request->Strings("messages");
  return AnswerDm(request, "status",
                  [&](const auto& dm) { return SendMessages(dm, pool, messages); });
}

Napi::Value TakeThinSnapshotsBinding(Fields* request) {
  const std::string pool = request->String("pool");
  const std::vector<NewThinSnapshot> members = ReadMembers(request);
  const FreezeOptions freezing = ReadFreezing(request);
  return Answer(request, WithControl([&](const auto& dm) {
                  return TakeThinSnapshots(dm, pool, members, freezing);
                }),
                [](Napi::Object* answer, const TakenThinSnapshots& taken) {
                  SetBigInt(answer, "takenAtNs", taken.taken_at_ns);
                  SetBigInt(answer, "suspendedNs", taken.suspended_ns);
                  answer->Set("status", ToValue(answer->Env(), taken.status));
                });
}

}  // namespace

void ExportDm(Napi::Object* exports) {
  Export<DmVersionBinding>(exports, "dmVersion");
  Export<DmHasTargetBinding>(exports, "dmHasTarget");
  Export<DmFindBinding>(exports, "dmFind");
  Export<DmListBinding>(exports, "dmList");
  Export<DmCreateBinding>(exports, "dmCreate");
  Export<DmReloadBinding>(exports, "dmReload");
  Export<DmSuspendBinding>(exports, "dmSuspend");
  Export<DmResumeBinding>(exports, "dmResume");
  Export<DmRemoveBinding>(exports, "dmRemove");
  Export<ThinPoolStatusBinding>(exports, "thinPoolStatus");
  Export<ThinMessagesBinding>(exports, "thinMessages");
  Export<TakeThinSnapshotsBinding>(exports, "takeThinSnapshots");
}

}  // namespace blockdelta
