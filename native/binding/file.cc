#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "native/binding/freezing.h"
#include "native/binding/functions.h"
#include "native/binding/values.h"
#include "native/device/directory_list.h"
#include "native/device/files.h"
#include "native/device/freeze.h"
#include "native/device/open_directories.h"
#include "native/device/pre_clone.h"
#include "native/device/subvolume.h"
#include "native/device/take_snapshots.h"

namespace blockdelta {
namespace {

constexpr size_t kFiguresPerFile = 3;

NewFileNames ReadNames(Fields* request) {
  return {request->Path("temporaryPath"), request->Path("finalPath")};
}

NewSnapshotFile ReadMember(Fields* request) {
  NewSnapshotFile member;
  member.source_path = request->Path("sourcePath");
  member.names = ReadNames(request);
  member.loop_path = request->PathOrNull("loopPath");
  member.freeze_path = request->PathOrNull("freezePath");
  return member;
}

SnapshotAids ReadAids(Fields* request) {
  return {request->PathOrNull("copyPath"), ReadFreezing(request)};
}

Napi::Value SnapshotsResult(Napi::Env env, Result<TakenSnapshots> outcome) {
  if (!outcome.ok()) return Failed(env, outcome.status());
  Napi::Object object = Success(env);
  SetBigInt(&object, "takenAtNs", outcome->taken_at_ns);
  SetBigInt(&object, "frozenNs", outcome->frozen_ns);
  return object;
}

Napi::Value ToObject(Napi::Env env, const std::optional<FileState>& state) {
  if (!state.has_value()) return env.Null();
  Napi::Object object = Napi::Object::New(env);
  SetBigInt(&object, "device", state->device);
  SetBigInt(&object, "inode", state->inode);
  SetBigInt(&object, "sizeBytes", state->size_bytes);
  SetBigInt(&object, "allocatedBytes", state->allocated_bytes);
  SetBoolean(&object, "immutable", state->immutable);
  SetBoolean(&object, "regular", state->regular);
  SetBoolean(&object, "matchesSeal", state->matches_seal);
  return object;
}

}  // namespace

Napi::Value ProbeReflinkBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "probeReflink");
  const std::string directory = request.Path("directory");
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  return BooleanResult(info.Env(), "supported", ProbeReflink(directory));
}

Napi::Value CreateSparseFileBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "createSparseFile");
  NewFileNames names = ReadNames(&request);
  const uint64_t size_bytes = request.Bytes("sizeBytes");
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  return StatusResult(info.Env(), CreateSparseFile(std::move(names), size_bytes));
}

Napi::Value CloneFileBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "cloneFile");
  const std::string source = request.Path("sourcePath");
  NewFileNames names = ReadNames(&request);
  const uint64_t size_bytes = request.Bytes("sizeBytes");
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  return StatusResult(info.Env(), CloneFile(source, std::move(names), size_bytes));
}

Napi::Value GrowFileBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "growFile");
  const std::string path = request.Path("path");
  const uint64_t size_bytes = request.Bytes("sizeBytes");
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  return BooleanResult(info.Env(), "grown", GrowFile(path, size_bytes));
}

Napi::Value CountExtentsBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "countExtents");
  const std::string path = request.Path("path");
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  Result<uint64_t> extents = CountExtents(path);
  if (!extents.ok()) return Failed(info.Env(), extents.status());
  Napi::Object object = Success(info.Env());
  SetBigInt(&object, "extents", *extents);
  return object;
}

Napi::Value AllocateFileBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "allocateFile");
  const std::string path = request.Path("path");
  const uint64_t size_bytes = request.Bytes("sizeBytes");
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  return StatusResult(info.Env(), AllocateFile(path, size_bytes));
}

Napi::Value CloneVolumeBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "cloneVolume");
  const NewSnapshotFile member = ReadMember(&request);
  const uint64_t size_bytes = request.Bytes("sizeBytes");
  SnapshotAids aids = ReadAids(&request);
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  return SnapshotsResult(info.Env(), CloneVolume(member, size_bytes, std::move(aids)));
}

Napi::Value TakeSnapshotsBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "takeSnapshots");
  std::vector<NewSnapshotFile> members;
  for (Fields& fields : request.Objects("members")) {
    members.push_back(ReadMember(&fields));
    request.TakeProblem(fields);
  }
  SnapshotAids aids = ReadAids(&request);
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  return SnapshotsResult(info.Env(), TakeSnapshots(members, std::move(aids)));
}

Napi::Value MakeSubvolumeBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "makeSubvolume");
  const NewFileNames names = ReadNames(&request);
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  return BooleanResult(info.Env(), "made", MakeSubvolume(names));
}

Napi::Value RemoveSubvolumeCopyBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "removeSubvolumeCopy");
  const std::string path = request.Path("path");
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  return BooleanResult(info.Env(), "removed", RemoveSubvolumeCopy(path));
}

Napi::Value RemoveFileBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "removeFile");
  const std::string path = request.Path("path");
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  return BooleanResult(info.Env(), "removed", RemoveFile(path));
}

Napi::Value FileStateBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "fileState");
  const std::string path = request.Path("path");
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  Result<std::optional<FileState>> state = StateOfFile(path);
  if (!state.ok()) return Failed(info.Env(), state.status());
  Napi::Object object = Success(info.Env());
  object.Set("state", ToObject(info.Env(), *state));
  return object;
}

Napi::Value OpenDirectoriesBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "openDirectories");
  const std::string root = request.Path("root");
  const std::vector<std::string> names = request.Strings("names");
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  Result<std::vector<OpenDirectory>> opened = OpenDirectories(root, names);
  if (!opened.ok()) return Failed(info.Env(), opened.status());
  Napi::Array array = Napi::Array::New(info.Env(), opened->size());
  for (size_t i = 0; i < opened->size(); i++) {
    OpenDirectory& directory = (*opened)[i];
    Napi::Object entry = Napi::Object::New(info.Env());
    SetBigInt(&entry, "device", directory.device);
    SetBigInt(&entry, "inode", directory.inode);
    SetNumber(&entry, "descriptor", static_cast<uint64_t>(directory.fd.Release()));
    array.Set(static_cast<uint32_t>(i), entry);
  }
  Napi::Object object = Success(info.Env());
  object.Set("directories", array);
  return object;
}

// One string and one array: an object for each file would cost several times the calls to stat.
Napi::Value ListDirectoryBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "listDirectory");
  const std::string path = request.Path("path");
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  Result<std::vector<ListedFile>> files = ListDirectory(path);
  if (!files.ok()) return Failed(info.Env(), files.status());
  std::string names;
  auto figures = Napi::BigUint64Array::New(info.Env(), files->size() * kFiguresPerFile);
  size_t next = 0;
  for (const ListedFile& file : *files) {
    if (next != 0) names += '/';
    names += file.name;
    figures[next++] = file.size_bytes;
    figures[next++] = file.allocated_bytes;
    figures[next++] = file.regular ? 1 : 0;
  }
  Napi::Object object = Success(info.Env());
  object.Set("names", Napi::String::New(info.Env(), names));
  object.Set("figures", figures);
  return object;
}

Napi::Value ThawBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "thaw");
  const std::string path = request.Path("path");
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  return BooleanResult(info.Env(), "thawed", ThawPath(path));
}

}  // namespace blockdelta
