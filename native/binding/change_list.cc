#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "native/binding/functions.h"
#include "native/binding/requests.h"
#include "native/scan/build_change_list.h"
#include "native/scan/change_list_file.h"
#include "native/scan/change_list_union.h"
#include "native/thin/build_thin_list.h"

namespace blockdelta {
namespace {

// Number of array elements of a BuildProgress; ReadProgress() has their order.
constexpr size_t kProgressWords = 20;

FileVersion TakeVersion(const uint64_t** words) {
  const uint64_t* const from = *words;
  *words += 4;
  return {from[0], from[1], from[2], from[3]};
}

ChangeListProgress TakeListProgress(const uint64_t** words) {
  const uint64_t* const from = *words;
  *words += 5;
  return {from[0], from[1], from[2], from[3], from[4]};
}

std::optional<BuildProgress> ReadProgress(Fields* request) {
  if (request->IsNull("progress")) return std::nullopt;
  const Napi::BigUint64Array array = request->Uint64s("progress");
  if (!request->ok()) return std::nullopt;
  if (array.ElementLength() != kProgressWords) {
    request->Reject("progress must be what the step before has returned");
    return std::nullopt;
  }
  const uint64_t* words = array.Data();
  BuildProgress progress;
  progress.offset = *words++;
  progress.range_start = *words++;
  progress.target = TakeVersion(&words);
  progress.base = TakeVersion(&words);
  progress.list = TakeListProgress(&words);
  progress.map = TakeListProgress(&words);
  return progress;
}

Napi::BigUint64Array ToArray(Napi::Env env, const BuildProgress& progress) {
  std::vector<uint64_t> words = {progress.offset, progress.range_start};
  for (const FileVersion& file : {progress.target, progress.base}) {
    words.insert(words.end(), {file.inode, file.generation, file.size_bytes, file.change_time_ns});
  }
  for (const ChangeListProgress& file : {progress.list, progress.map}) {
    words.insert(words.end(), {file.file_id, file.pages, file.entries, file.entry_bytes, file.end});
  }
  auto array = Napi::BigUint64Array::New(env, words.size());
  for (size_t i = 0; i < words.size(); i++) array[i] = words[i];
  return array;
}

void SetOutcome(Napi::Object* answer, const BuildOutcome& outcome) {
  answer->Set("progress", ToArray(answer->Env(), outcome.progress));
  SetBoolean(answer, "done", outcome.done);
  SetNumber(answer, "extents", outcome.extents);
  SetNumber(answer, "rescans", outcome.rescans);
  SetBigInt(answer, "fileBytes", outcome.file_bytes);
}

SnapshotToList ReadSnapshot(const char* name, Fields* request) {
  Fields snapshot = request->Object(name);
  SnapshotToList read = {snapshot.String("id"), ReadIdentity("file", &snapshot)};
  request->TakeProblem(snapshot);
  return read;
}

ChangeListNames ReadNames(const char* name, Fields* request) {
  Fields names = request->Object(name);
  ChangeListNames read = {names.Path("temporaryPath"), names.Path("finalPath")};
  request->TakeProblem(names);
  return read;
}

Napi::Value ListedOrNull(Napi::Env env, const ListedSnapshot& snapshot) {
  if (snapshot.id.empty()) return env.Null();
  Napi::Object object = Napi::Object::New(env);
  object.Set("id", Napi::String::New(env, snapshot.id));
  SetBoolean(&object, "isThin", snapshot.kind == ListedKind::kThinDevice);
  SetBigInt(&object, "inode", snapshot.file.inode);
  SetBigInt(&object, "generation", snapshot.file.generation);
  SetBigInt(&object, "sizeBytes", snapshot.file.size_bytes);
  SetBigInt(&object, "changeTimeNs", snapshot.file.change_time_ns);
  return object;
}

const char* NameOf(ChangeListKind kind) {
  if (kind == ChangeListKind::kDelta) return "delta";
  return kind == ChangeListKind::kAllocated ? "allocated" : "map";
}

Napi::Value BuildChangeListBinding(Fields* fields) {
  BuildChangeListRequest request;
  request.target = ReadSnapshot("target", fields);
  if (!fields->IsNull("base")) request.base = ReadSnapshot("base", fields);
  request.names = ReadNames("names", fields);
  request.base_map = fields->PathOrNull("baseMapPath");
  if (!fields->IsNull("mapNames")) request.map_names = ReadNames("mapNames", fields);
  request.max_extents = fields->Count("maxExtents");
  const std::optional<BuildProgress> progress = ReadProgress(fields);
  return Answer(
      fields, [&] { return BuildChangeList(request, progress); }, SetOutcome);
}

Napi::Value BuildThinListBinding(Fields* fields) {
  BuildThinListRequest request;
  request.metadata = fields->Path("metadata");
  Fields target = fields->Object("target");
  request.target_id = target.String("id");
  request.target_bytes = target.Bytes("sizeBytes");
  request.target = ReadThinDevice("device", &target);
  fields->TakeProblem(target);
  if (!fields->IsNull("base")) {
    Fields base = fields->Object("base");
    request.base_id = base.String("id");
    request.base_bytes = base.Bytes("sizeBytes");
    if (!base.IsNull("device")) request.base = ReadThinDevice("device", &base);
    request.bookmark_path = base.PathOrNull("bookmarkPath");
    fields->TakeProblem(base);
  }
  request.names = ReadNames("names", fields);
  request.max_nodes = fields->Count("maxNodes");
  const std::optional<BuildProgress> progress = ReadProgress(fields);
  return Answer(
      fields, [&] { return BuildThinList(request, progress); }, SetOutcome);
}

Napi::Value ChangeListHeadBinding(Fields* request) {
  const std::string path = request->Path("path");
  return Answer(
      request, [&] { return ChangeListFile::Open(path); },
      [](Napi::Object* answer, const ChangeListFile& file) {
        const ChangeListHead& head = file.head();
        answer->Set("kind", Napi::String::New(answer->Env(), NameOf(head.kind)));
        answer->Set("target", ListedOrNull(answer->Env(), head.target));
        answer->Set("base", ListedOrNull(answer->Env(), head.base));
        SetBigInt(answer, "entries", head.entries);
        SetBigInt(answer, "entryBytes", head.entry_bytes);
        SetBigInt(answer, "fileBytes", file.file_bytes());
      });
}

Napi::Value JoinChangeListsBinding(Fields* fields) {
  JoinChangeListsRequest request;
  request.older = fields->Path("olderPath");
  request.newer = fields->Path("newerPath");
  ChangeListNames names = ReadNames("names", fields);
  request.temporary = std::move(names.temporary);
  request.final = std::move(names.final);
  return AnswerValue(fields, "entries", [&] { return JoinChangeLists(request); });
}

Napi::Value VerifyChangeListsBinding(Fields* fields) {
  ChangeListRequest request = ReadChangeLists(fields);
  return AnswerStatus(fields, [&] { return VerifyChangeLists(std::move(request)); });
}

}  // namespace

SnapshotIdentity ReadIdentity(const char* name, Fields* source) {
  Fields file = source->Object(name);
  SnapshotIdentity identity = {file.Path("path"), file.Uint64("device"), file.Uint64("inode"),
                               file.Bytes("sizeBytes")};
  source->TakeProblem(file);
  return identity;
}

ChangeListRequest ReadChangeLists(Fields* source) {
  ChangeListRequest request;
  request.paths = source->Strings("paths");
  request.target_id = source->String("targetId");
  request.base_id = source->StringOrNull("baseId").value_or(std::string());
  request.size_bytes = source->Bytes("sizeBytes");
  if (!source->IsNull("target")) request.target = ReadIdentity("target", source);
  if (!source->IsNull("base")) request.base = ReadIdentity("base", source);
  if (!source->IsNull("thin")) {
    Fields times = source->Object("thin");
    request.thin = ThinTimes{static_cast<uint32_t>(times.Integer("targetTime", UINT32_MAX)), {}};
    if (!times.IsNull("baseTime")) {
      request.thin->base = static_cast<uint32_t>(times.Integer("baseTime", UINT32_MAX));
    }
    source->TakeProblem(times);
  }
  if (request.paths.size() > ChangeListRequest::kMaxLists) {
    source->Reject("paths must have at most 1024 elements");
  }
  return request;
}

void ExportChangeList(Napi::Object* exports) {
  Export<BuildChangeListBinding>(exports, "buildChangeList");
  Export<BuildThinListBinding>(exports, "buildThinList");
  Export<ChangeListHeadBinding>(exports, "changeListHead");
  Export<JoinChangeListsBinding>(exports, "joinChangeLists");
  Export<VerifyChangeListsBinding>(exports, "verifyChangeLists");
}

}  // namespace blockdelta
