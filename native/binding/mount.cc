#include <cstdint>
#include <string>

#include "native/binding/functions.h"
#include "native/binding/values.h"
#include "native/device/anchored_path.h"
#include "native/device/mount_file_system.h"
#include "native/device/mount_layer.h"

namespace blockdelta {
namespace {

constexpr uint64_t kMaxNumber = (uint64_t{1} << 53) - 1;

std::optional<uint64_t> IntegerOrNull(Fields* request, const char* name) {
  if (request->IsNull(name)) return std::nullopt;
  return request->Integer(name, kMaxNumber);
}

MountAttributes ReadAttributes(Fields* request) {
  return {request->Integer("set", UINT32_MAX), request->Integer("clear", UINT32_MAX)};
}

}  // namespace

Napi::Value UnmountLayerBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "unmountLayer");
  const std::string path = request.Path("path");
  const uint64_t mount_id = request.Integer("mountId", kMaxNumber);
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  return BooleanResult(info.Env(), "unmounted", UnmountLayer(path, mount_id));
}

Napi::Value MountFileSystemBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "mountFileSystem");
  FileSystemMount mount;
  mount.source = request.Path("source");
  mount.type = request.String("fsType");
  mount.options = request.Strings("options");
  mount.attributes = {request.Integer("set", UINT32_MAX), 0};
  mount.target = request.Path("target");
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  return StatusResult(info.Env(), MountFileSystem(mount));
}

Napi::Value ThawDeviceBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "thawDevice");
  const std::string source = request.Path("source");
  const std::string type = request.String("fsType");
  const std::vector<std::string> options = request.Strings("options");
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  return BooleanResult(info.Env(), "thawed", ThawDevice(source, type, options));
}

Napi::Value BindMountBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "bindMount");
  BindSource source;
  source.path = request.Path("source");
  source.mount_id = IntegerOrNull(&request, "sourceMountId");
  source.device = IntegerOrNull(&request, "sourceDevice");
  const std::string target = request.Path("target");
  const MountAttributes attributes = ReadAttributes(&request);
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  return StatusResult(info.Env(), BindMount(source, target, attributes));
}

Napi::Value SetMountAttributesBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "setMountAttributes");
  const std::string path = request.Path("path");
  const uint64_t mount_id = request.Integer("mountId", kMaxNumber);
  const MountAttributes attributes = ReadAttributes(&request);
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  return StatusResult(info.Env(), SetMountAttributes(path, mount_id, attributes));
}

Napi::Value MakeTargetBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "makeTarget");
  const std::string path = request.Path("path");
  const bool directory = request.Boolean("directory");
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  Result<AnchoredPath> anchored = AnchoredPath::Open(path);
  if (!anchored.ok()) return Failed(info.Env(), anchored.status());
  return BooleanResult(info.Env(), "made", anchored->Make(directory));
}

Napi::Value RemoveTargetBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "removeTarget");
  const std::string path = request.Path("path");
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  Result<AnchoredPath> anchored = AnchoredPath::Open(path);
  if (!anchored.ok()) return Failed(info.Env(), anchored.status());
  return BooleanResult(info.Env(), "removed", anchored->Remove());
}

}  // namespace blockdelta
