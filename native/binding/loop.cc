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

static Napi::Value ToValue(Napi::Env env, const LoopDevice& device) {
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

namespace {

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
  std::optional<uint64_t> file_device;
  std::optional<LoopDevice> device;
};

// The regular file, open for reading; an invalid descriptor if it is not there any more.
UniqueFd OpenSame(const std::string& path, const FileIdentity& identity) {
  Result<UniqueFd> fd = OpenPath(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!fd.ok()) return UniqueFd();
  Result<struct stat> state = StatFd(fd->get(), path);
  if (!state.ok() || !(FileIdentity{state->st_dev, state->st_ino} == identity)) return UniqueFd();
  return std::move(*fd);
}

std::optional<uint32_t> HintIn(Fields* request) {
  if (request->IsNull("hint")) return std::nullopt;
  return static_cast<uint32_t>(request->Integer("hint", UINT32_MAX));
}

// Both fields are empty if there is no such file.
Result<FoundLoop> FindByPath(const std::string& path, std::optional<uint32_t> hint) {
  Result<struct stat> state = StatPath(path);
  if (state.status().IsErrno(ENOENT) || state.status().IsErrno(ENOTDIR)) return FoundLoop();
  RETURN_IF_ERROR(state);
  const FileIdentity identity = {state->st_dev, state->st_ino};
  UniqueFd fd = S_ISREG(state->st_mode) ? OpenSame(path, identity) : UniqueFd();
  Result<std::optional<LoopDevice>> device = FindLoop({identity, path, fd.get(), hint});
  RETURN_IF_ERROR(device);
  return FoundLoop{identity.device, *device};
}

Status RefuseDiscards(const std::string& path) {
  Result<FoundLoop> found = FindByPath(path, std::nullopt);
  RETURN_IF_ERROR(found);
  if (!found->device.has_value()) return Status::Errno(ENXIO, "refuseDiscards", path);
  return RefuseLoopDiscards(found->device->number);
}

Napi::Value LoopAttachBinding(Fields* request) {
  const std::string path = request->Path("backingPath");
  const bool read_only = request->Boolean("readOnly");
  const std::string label = request->String("label");
  return Answer(
      request, [&] { return AttachLoop(path, read_only, label); },
      [](Napi::Object* answer, const AttachedLoop& attached) {
        answer->Set("device", ToValue(answer->Env(), attached.device));
        SetBoolean(answer, "created", attached.created);
      });
}

Napi::Value LoopFindBinding(Fields* request) {
  const std::string path = request->Path("backingPath");
  const std::optional<uint32_t> hint = HintIn(request);
  return Answer(
      request, [&] { return FindByPath(path, hint); },
      [](Napi::Object* answer, const FoundLoop& found) {
        answer->Set("device", ToValue(answer->Env(), found.device));
        answer->Set("fileDevice", ToValue(answer->Env(), found.file_device));
      });
}

Napi::Value LoopListBinding(Fields* request) { return AnswerValue(request, "devices", ListLoops); }

Napi::Value LoopDetachBinding(Fields* request) {
  const std::string path = request->Path("backingPath");
  const std::optional<uint32_t> hint = HintIn(request);
  return AnswerValue(request, "detached", [&] { return DetachLoop(path, hint); });
}

Napi::Value LoopDetachUnmountedBinding(Fields* request) {
  const std::string path = request->Path("devicePath");
  return AnswerValue(request, "detached", [&] { return DetachUnmountedLoops(path); });
}

Napi::Value LoopResizeBinding(Fields* request) {
  const std::string path = request->Path("backingPath");
  return AnswerValue(request, "device", [&] { return ResizeLoop(path); });
}

Napi::Value SetLoopDirectIoBinding(Fields* request) {
  const std::string path = request->Path("devicePath");
  const bool direct_io = request->Boolean("directIo");
  return AnswerStatus(request, [&] { return SetLoopDirectIo(path, direct_io); });
}

Napi::Value RefuseDiscardsBinding(Fields* request) {
  const std::string path = request->Path("backingPath");
  return AnswerStatus(request, [&] { return RefuseDiscards(path); });
}

Napi::Value EndUnsafeDirectIoBinding(Fields* request) {
  const std::string directory = request->Path("directory");
  return Answer(
      request, [&] { return EndUnsafeDirectIo(directory); },
      [](Napi::Object* answer, uint32_t changed) { SetNumber(answer, "changed", changed); });
}

Napi::Value SetDeviceReadOnlyBinding(Fields* request) {
  const std::string path = request->Path("devicePath");
  const bool read_only = request->Boolean("readOnly");
  return AnswerStatus(request, [&] { return SetDeviceReadOnly(path, read_only); });
}

Napi::Value FlushBinding(Fields* request) {
  const std::string path = request->Path("path");
  return AnswerStatus(request, [&] { return SyncPath(path); });
}

Napi::Value GrowFileSystemBinding(Fields* request) {
  const std::string mount_point = request->Path("mountPoint");
  const std::string device_path = request->Path("devicePath");
  return Answer(
      request, [&] { return GrowFileSystem(mount_point, device_path); },
      [](Napi::Object* answer, const Growth& growth) {
        answer->Set("fileSystem", Napi::String::New(answer->Env(), NameOf(growth.kind)));
        SetBigInt(answer, "beforeBytes", growth.before_bytes);
        SetBigInt(answer, "afterBytes", growth.after_bytes);
      });
}

}  // namespace

void ExportLoop(Napi::Object* exports) {
  Export<LoopAttachBinding>(exports, "loopAttach");
  Export<LoopFindBinding>(exports, "loopFind");
  Export<LoopListBinding>(exports, "loopList");
  Export<LoopDetachBinding>(exports, "loopDetach");
  Export<LoopDetachUnmountedBinding>(exports, "loopDetachUnmounted");
  Export<LoopResizeBinding>(exports, "loopResize");
  Export<SetLoopDirectIoBinding>(exports, "setLoopDirectIo");
  Export<RefuseDiscardsBinding>(exports, "refuseDiscards");
  Export<EndUnsafeDirectIoBinding>(exports, "endUnsafeDirectIo");
  Export<SetDeviceReadOnlyBinding>(exports, "setDeviceReadOnly");
  Export<FlushBinding>(exports, "flush");
  Export<GrowFileSystemBinding>(exports, "growFileSystem");
}

}  // namespace blockdelta
