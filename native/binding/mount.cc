#include <cstdint>
#include <string>

#include "native/binding/functions.h"
#include "native/binding/values.h"
#include "native/device/anchored_path.h"
#include "native/device/mount_file_system.h"
#include "native/device/mount_layer.h"
#include "native/device/mount_table.h"

namespace blockdelta {

static Napi::Value ToValue(Napi::Env env, const MountRecord& record) {
  Napi::Object object = Napi::Object::New(env);
  SetNumber(&object, "mountId", record.mount_id);
  SetNumber(&object, "parentId", record.parent_id);
  SetNumber(&object, "major", record.major);
  SetNumber(&object, "minor", record.minor);
  object.Set("root", Napi::String::New(env, record.root));
  object.Set("mountPoint", Napi::String::New(env, record.mount_point));
  SetNumber(&object, "attributes", record.attributes);
  SetNumber(&object, "peerGroup", record.peer_group);
  SetNumber(&object, "masterGroup", record.master_group);
  object.Set("fsType", Napi::String::New(env, record.type));
  object.Set("source", Napi::String::New(env, record.source));
  SetNumber(&object, "superFlags", record.super_flags);
  object.Set("superOptions", Napi::String::New(env, record.super_options));
  return object;
}

namespace {

constexpr uint64_t kMaxNumber = (uint64_t{1} << 53) - 1;
constexpr uint32_t kMaxDevices = 16;

std::optional<uint64_t> IntegerOrNull(Fields* request, const char* name) {
  if (request->IsNull(name)) return std::nullopt;
  return request->Integer(name, kMaxNumber);
}

MountAttributes ReadAttributes(Fields* request) {
  return {request->Integer("set", UINT32_MAX), request->Integer("clear", UINT32_MAX)};
}

Napi::Value UnmountLayerBinding(Fields* request) {
  const std::string path = request->Path("path");
  const uint64_t mount_id = request->Integer("mountId", kMaxNumber);
  return AnswerValue(request, "unmounted", [&] { return UnmountLayer(path, mount_id); });
}

Napi::Value MountsAroundBinding(Fields* request) {
  const std::vector<std::string> paths = request->Strings("paths");
  const std::vector<uint64_t> devices = request->Integers("devices", kMaxNumber, kMaxDevices);
  return AnswerValue(request, "mounts", [&]() -> Result<std::optional<std::vector<MountRecord>>> {
    thread_local MountTable table;
    return table.Around(paths, {devices.begin(), devices.end()});
  });
}

Napi::Value MountFileSystemBinding(Fields* request) {
  FileSystemMount mount;
  mount.source = request->Path("source");
  mount.type = request->String("fsType");
  mount.options = request->Strings("options");
  mount.attributes = {request->Integer("set", UINT32_MAX), 0};
  mount.target = request->Path("target");
  return AnswerStatus(request, [&] { return MountFileSystem(mount); });
}

Napi::Value ThawDeviceBinding(Fields* request) {
  const std::string source = request->Path("source");
  const std::string type = request->String("fsType");
  const std::vector<std::string> options = request->Strings("options");
  return AnswerValue(request, "thawed", [&] { return ThawDevice(source, type, options); });
}

Napi::Value BindMountBinding(Fields* request) {
  BindSource source;
  source.path = request->Path("source");
  source.mount_id = IntegerOrNull(request, "sourceMountId");
  source.device = IntegerOrNull(request, "sourceDevice");
  const std::string target = request->Path("target");
  const MountAttributes attributes = ReadAttributes(request);
  return AnswerStatus(request, [&] { return BindMount(source, target, attributes); });
}

Napi::Value SetMountAttributesBinding(Fields* request) {
  const std::string path = request->Path("path");
  const uint64_t mount_id = request->Integer("mountId", kMaxNumber);
  const MountAttributes attributes = ReadAttributes(request);
  return AnswerStatus(request, [&] { return SetMountAttributes(path, mount_id, attributes); });
}

Napi::Value MakeTargetBinding(Fields* request) {
  const std::string path = request->Path("path");
  const bool directory = request->Boolean("directory");
  return AnswerValue(request, "made", [&]() -> Result<bool> {
    Result<AnchoredPath> anchored = AnchoredPath::Open(path);
    RETURN_IF_ERROR(anchored);
    return anchored->Make(directory);
  });
}

Napi::Value RemoveTargetBinding(Fields* request) {
  const std::string path = request->Path("path");
  return AnswerValue(request, "removed", [&]() -> Result<bool> {
    Result<AnchoredPath> anchored = AnchoredPath::Open(path);
    RETURN_IF_ERROR(anchored);
    return anchored->Remove();
  });
}

}  // namespace

void ExportMount(Napi::Object* exports) {
  Export<MountFileSystemBinding>(exports, "mountFileSystem");
  Export<ThawDeviceBinding>(exports, "thawDevice");
  Export<MountsAroundBinding>(exports, "mountsAround");
  Export<UnmountLayerBinding>(exports, "unmountLayer");
  Export<BindMountBinding>(exports, "bindMount");
  Export<SetMountAttributesBinding>(exports, "setMountAttributes");
  Export<MakeTargetBinding>(exports, "makeTarget");
  Export<RemoveTargetBinding>(exports, "removeTarget");
}

}  // namespace blockdelta
