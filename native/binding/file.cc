#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "native/binding/functions.h"
#include "native/binding/requests.h"
#include "native/binding/values.h"
#include "native/device/directory_list.h"
#include "native/device/files.h"
#include "native/device/freeze.h"
#include "native/device/open_directories.h"
#include "native/device/pre_clone.h"
#include "native/device/punch.h"
#include "native/device/subvolume.h"
#include "native/device/take_snapshots.h"
#include "native/scan/exclusive_bytes.h"

namespace blockdelta {

static Napi::Value ToValue(Napi::Env env, const FileState& state) {
  Napi::Object object = Napi::Object::New(env);
  SetBigInt(&object, "device", state.device);
  SetBigInt(&object, "inode", state.inode);
  SetBigInt(&object, "sizeBytes", state.size_bytes);
  SetBigInt(&object, "allocatedBytes", state.allocated_bytes);
  SetBoolean(&object, "immutable", state.immutable);
  SetBoolean(&object, "regular", state.regular);
  SetBoolean(&object, "matchesSeal", state.matches_seal);
  return object;
}

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

void SetTaken(Napi::Object* answer, const TakenSnapshots& taken) {
  SetBigInt(answer, "takenAtNs", taken.taken_at_ns);
  SetBigInt(answer, "frozenNs", taken.frozen_ns);
}

Napi::Value ProbeReflinkBinding(Fields* request) {
  const std::string directory = request->Path("directory");
  return AnswerValue(request, "supported", [&] { return ProbeReflink(directory); });
}

Napi::Value CreateSparseFileBinding(Fields* request) {
  NewFileNames names = ReadNames(request);
  const uint64_t size_bytes = request->Bytes("sizeBytes");
  return AnswerStatus(request, [&] { return CreateSparseFile(std::move(names), size_bytes); });
}

Napi::Value CloneFileBinding(Fields* request) {
  const std::string source = request->Path("sourcePath");
  NewFileNames names = ReadNames(request);
  const uint64_t size_bytes = request->Bytes("sizeBytes");
  return AnswerStatus(request, [&] { return CloneFile(source, std::move(names), size_bytes); });
}

Napi::Value GrowFileBinding(Fields* request) {
  const std::string path = request->Path("path");
  const uint64_t size_bytes = request->Bytes("sizeBytes");
  return AnswerValue(request, "grown", [&] { return GrowFile(path, size_bytes); });
}

Napi::Value CountExtentsBinding(Fields* request) {
  const std::string path = request->Path("path");
  return AnswerValue(request, "extents", [&] { return CountExtents(path); });
}

Napi::Value CountExclusiveBytesBinding(Fields* request) {
  const std::string path = request->Path("path");
  return AnswerValue(request, "bytes", [&] { return CountExclusiveBytes(path); });
}

Napi::Value FreezeFileBinding(Fields* request) {
  const NewFileNames names = ReadNames(request);
  return AnswerStatus(request, [&] { return FreezeFile(names); });
}

Napi::Value PunchDeviceBinding(Fields* request) {
  const std::string path = request->Path("path");
  const Napi::BigUint64Array words = request->Uint64s("ranges");
  const uint64_t block_bytes = request->Bytes("blockBytes");
  std::vector<ByteRange> ranges;
  if (request->ok() && words.ElementLength() % 2 != 0) {
    request->Reject("ranges must be pairs of offset and size");
  } else if (request->ok()) {
    for (size_t i = 0; i + 1 < words.ElementLength(); i += 2) {
      ranges.push_back({words.Data()[i], words.Data()[i + 1]});
    }
  }
  return AnswerStatus(request, [&] { return PunchDevice(path, ranges, block_bytes); });
}

Napi::Value AllocateFileBinding(Fields* request) {
  const std::string path = request->Path("path");
  const uint64_t size_bytes = request->Bytes("sizeBytes");
  return AnswerStatus(request, [&] { return AllocateFile(path, size_bytes); });
}

Napi::Value CloneVolumeBinding(Fields* request) {
  const NewSnapshotFile member = ReadMember(request);
  const uint64_t size_bytes = request->Bytes("sizeBytes");
  SnapshotAids aids = ReadAids(request);
  return Answer(
      request, [&] { return CloneVolume(member, size_bytes, std::move(aids)); }, SetTaken);
}

Napi::Value TakeSnapshotsBinding(Fields* request) {
  std::vector<NewSnapshotFile> members;
  for (Fields& fields : request->Objects("members")) {
    members.push_back(ReadMember(&fields));
    request->TakeProblem(fields);
  }
  SnapshotAids aids = ReadAids(request);
  return Answer(
      request, [&] { return TakeSnapshots(members, std::move(aids)); }, SetTaken);
}

Napi::Value MakeSubvolumeBinding(Fields* request) {
  const NewFileNames names = ReadNames(request);
  return AnswerValue(request, "made", [&] { return MakeSubvolume(names); });
}

Napi::Value RemoveSubvolumeCopyBinding(Fields* request) {
  const std::string path = request->Path("path");
  return AnswerValue(request, "removed", [&] { return RemoveSubvolumeCopy(path); });
}

Napi::Value RemoveFileBinding(Fields* request) {
  const std::string path = request->Path("path");
  return AnswerValue(request, "removed", [&] { return RemoveFile(path); });
}

Napi::Value FileStateBinding(Fields* request) {
  const std::string path = request->Path("path");
  return AnswerValue(request, "state", [&] { return StateOfFile(path); });
}

Napi::Value OpenDirectoriesBinding(Fields* request) {
  const std::string root = request->Path("root");
  const std::vector<std::string> names = request->Strings("names");
  return Answer(
      request, [&] { return OpenDirectories(root, names); },
      [](Napi::Object* answer, std::vector<OpenDirectory>& opened) {
        Napi::Array array = Napi::Array::New(answer->Env(), opened.size());
        for (uint32_t i = 0; i < opened.size(); i++) {
          Napi::Object entry = Napi::Object::New(answer->Env());
          SetBigInt(&entry, "device", opened[i].device);
          SetBigInt(&entry, "inode", opened[i].inode);
          SetNumber(&entry, "descriptor", static_cast<uint64_t>(opened[i].fd.Release()));
          array.Set(i, entry);
        }
        answer->Set("directories", array);
      });
}

// Returns one string and one array: one object per file would cost several times the stat calls.
Napi::Value ListDirectoryBinding(Fields* request) {
  const std::string path = request->Path("path");
  const bool sizes = request->Boolean("sizes");
  return Answer(
      request, [&] { return ListDirectory(path, sizes); },
      [](Napi::Object* answer, const std::vector<ListedFile>& files) {
        std::string names;
        auto figures = Napi::BigUint64Array::New(answer->Env(), files.size() * kFiguresPerFile);
        size_t next = 0;
        for (const ListedFile& file : files) {
          if (next != 0) names += '/';
          names += file.name;
          figures[next++] = file.size_bytes;
          figures[next++] = file.allocated_bytes;
          figures[next++] = file.regular ? 1 : 0;
        }
        answer->Set("names", Napi::String::New(answer->Env(), names));
        answer->Set("figures", figures);
      });
}

Napi::Value ThawBinding(Fields* request) {
  const std::string path = request->Path("path");
  return AnswerValue(request, "thawed", [&] { return ThawPath(path); });
}

}  // namespace

FreezeOptions ReadFreezing(Fields* request) {
  FreezeOptions options;
  options.guardian_socket = request->PathOrNull("guardianSocket");
  options.limit_ms = request->Bytes("freezeLimitMs");
  options.deadline_ms = request->BytesOrNull("deadlineMs");
  return options;
}

void ExportFile(Napi::Object* exports) {
  Export<ProbeReflinkBinding>(exports, "probeReflink");
  Export<CreateSparseFileBinding>(exports, "createSparseFile");
  Export<CloneFileBinding>(exports, "cloneFile");
  Export<FreezeFileBinding>(exports, "freezeFile");
  Export<PunchDeviceBinding>(exports, "punchDevice");
  Export<CountExtentsBinding>(exports, "countExtents");
  Export<CountExclusiveBytesBinding>(exports, "countExclusiveBytes");
  Export<GrowFileBinding>(exports, "growFile");
  Export<AllocateFileBinding>(exports, "allocateFile");
  Export<CloneVolumeBinding>(exports, "cloneVolume");
  Export<TakeSnapshotsBinding>(exports, "takeSnapshots");
  Export<MakeSubvolumeBinding>(exports, "makeSubvolume");
  Export<RemoveSubvolumeCopyBinding>(exports, "removeSubvolumeCopy");
  Export<RemoveFileBinding>(exports, "removeFile");
  Export<FileStateBinding>(exports, "fileState");
  Export<OpenDirectoriesBinding>(exports, "openDirectories");
  Export<ListDirectoryBinding>(exports, "listDirectory");
  Export<ThawBinding>(exports, "thaw");
}

}  // namespace blockdelta
