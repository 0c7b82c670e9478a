#include <optional>
#include <string>
#include <vector>

#include "native/binding/functions.h"
#include "native/binding/values.h"
#include "native/device/direct_io.h"
#include "native/device/file_system_growth.h"
#include "native/device/loop_attach.h"
#include "native/device/loop_change.h"
#include "native/device/loop_info.h"

namespace blockdelta {
namespace {

Napi::Object ToObject(Napi::Env env, const LoopDevice& device) {
  Napi::Object object = Napi::Object::New(env);
  SetNumber(&object, "number", device.number);
  object.Set("path", Napi::String::New(env, device.path));
  SetBigInt(&object, "backingDevice", device.backing.device);
  SetBigInt(&object, "backingInode", device.backing.inode);
  SetBoolean(&object, "readOnly", device.read_only);
  SetBoolean(&object, "directIo", device.direct_io);
  SetNumber(&object, "sectorBytes", device.sector_bytes);
  SetBigInt(&object, "sizeBytes", device.size_bytes);
  return object;
}

Napi::Value DeviceResult(Napi::Env env, Result<std::optional<LoopDevice>> device) {
  if (!device.ok()) return Failed(env, device.status());
  Napi::Object object = Success(env);
  if (device->has_value()) {
    object.Set("device", ToObject(env, **device));
  } else {
    object.Set("device", env.Null());
  }
  return object;
}

const char* NameOf(FileSystemKind kind) {
  switch (kind) {
    case FileSystemKind::kExt4:
      return "ext4";
    case FileSystemKind::kXfs:
      return "xfs";
    case FileSystemKind::kBtrfs:
      return "btrfs";
    case FileSystemKind::kOther:
      break;
  }
  return "";
}

struct FoundLoop {
  std::optional<FileIdentity> file;
  std::optional<LoopDevice> device;
};

// Both are empty if there is no such file.
Result<FoundLoop> FindByPath(const std::string& path) {
  Result<struct stat> state = StatPath(path);
  if (state.status().IsErrno(ENOENT) || state.status().IsErrno(ENOTDIR)) return FoundLoop();
  RETURN_IF_ERROR(state);
  const FileIdentity file = {state->st_dev, state->st_ino};
  Result<std::optional<LoopDevice>> device = FindLoop(file, path);
  RETURN_IF_ERROR(device);
  return FoundLoop{file, *device};
}

}  // namespace

Napi::Value LoopAttachBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "loopAttach");
  const std::string path = request.Path("backingPath");
  const bool read_only = request.Boolean("readOnly");
  const std::string label = request.String("label");
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  Result<AttachedLoop> attached = AttachLoop(path, read_only, label);
  if (!attached.ok()) return Failed(info.Env(), attached.status());
  Napi::Object object = Success(info.Env());
  object.Set("device", ToObject(info.Env(), attached->device));
  SetBoolean(&object, "created", attached->created);
  return object;
}

Napi::Value LoopFindBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "loopFind");
  const std::string path = request.Path("backingPath");
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  Result<FoundLoop> found = FindByPath(path);
  if (!found.ok()) return Failed(info.Env(), found.status());
  Napi::Object object = DeviceResult(info.Env(), found->device).As<Napi::Object>();
  if (found->file.has_value()) {
    SetBigInt(&object, "fileDevice", found->file->device);
  } else {
    object.Set("fileDevice", info.Env().Null());
  }
  return object;
}

Napi::Value LoopListBinding(const Napi::CallbackInfo& info) {
  Result<std::vector<LoopDevice>> devices = ListLoops();
  if (!devices.ok()) return Failed(info.Env(), devices.status());
  Napi::Array array = Napi::Array::New(info.Env(), devices->size());
  for (size_t i = 0; i < devices->size(); i++) {
    array.Set(static_cast<uint32_t>(i), ToObject(info.Env(), (*devices)[i]));
  }
  Napi::Object object = Success(info.Env());
  object.Set("devices", array);
  return object;
}

Napi::Value LoopDetachBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "loopDetach");
  const std::string path = request.Path("backingPath");
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  Result<bool> detached = DetachLoop(path);
  if (!detached.ok()) return Failed(info.Env(), detached.status());
  Napi::Object object = Success(info.Env());
  SetBoolean(&object, "detached", *detached);
  return object;
}

Napi::Value LoopResizeBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "loopResize");
  const std::string path = request.Path("backingPath");
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  return DeviceResult(info.Env(), ResizeLoop(path));
}

Napi::Value SetLoopDirectIoBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "setLoopDirectIo");
  const std::string path = request.Path("devicePath");
  const bool direct_io = request.Boolean("directIo");
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  return StatusResult(info.Env(), SetLoopDirectIo(path, direct_io));
}

Napi::Value RefuseDiscardsBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "refuseDiscards");
  const std::string path = request.Path("backingPath");
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  Result<FoundLoop> found = FindByPath(path);
  if (!found.ok()) return Failed(info.Env(), found.status());
  if (!found->device.has_value()) {
    return Failed(info.Env(), Status::Errno(ENXIO, "refuseDiscards", path));
  }
  return StatusResult(info.Env(), RefuseLoopDiscards(found->device->number));
}

Napi::Value EndUnsafeDirectIoBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "endUnsafeDirectIo");
  const std::string directory = request.Path("directory");
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  Result<uint32_t> changed = EndUnsafeDirectIo(directory);
  if (!changed.ok()) return Failed(info.Env(), changed.status());
  Napi::Object object = Success(info.Env());
  SetNumber(&object, "changed", *changed);
  return object;
}

Napi::Value SetDeviceReadOnlyBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "setDeviceReadOnly");
  const std::string path = request.Path("devicePath");
  const bool read_only = request.Boolean("readOnly");
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  return StatusResult(info.Env(), SetDeviceReadOnly(path, read_only));
}

Napi::Value FlushBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "flush");
  const std::string path = request.Path("path");
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  return StatusResult(info.Env(), SyncPath(path));
}

Napi::Value GrowFileSystemBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "growFileSystem");
  const std::string mount_point = request.Path("mountPoint");
  const std::string device_path = request.Path("devicePath");
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  Result<Growth> growth = GrowFileSystem(mount_point, device_path);
  if (!growth.ok()) return Failed(info.Env(), growth.status());
  Napi::Object object = Success(info.Env());
  object.Set("fileSystem", Napi::String::New(info.Env(), NameOf(growth->kind)));
  SetBigInt(&object, "beforeBytes", growth->before_bytes);
  SetBigInt(&object, "afterBytes", growth->after_bytes);
  return object;
}

}  // namespace blockdelta
