#include "native/binding/thin_delta.h"

#include <utility>

#include "native/thin/delta_list.h"
#include "native/thin/keep_base.h"
#include "native/thin/thin_format.h"

namespace blockdelta {
namespace {

constexpr uint64_t kMaxRecords = 65'536;
constexpr size_t kWordsPerRun = 3;

ThinDeviceRef ReadDevice(const char* name, Fields* fields) {
  Fields device = fields->Nested(name);
  ThinDeviceRef ref = {device.Whole("deviceId", kMaxDeviceId), std::nullopt};
  if (!device.IsNull("root")) ref.root = device.Word("root");
  fields->Adopt(device);
  return ref;
}

Napi::BigUint64Array ToWords(Napi::Env env, const DeltaRuns& runs) {
  Napi::BigUint64Array words = Napi::BigUint64Array::New(env, runs.size() * kWordsPerRun);
  uint64_t* at = words.Data();
  for (const DeltaRun& run : runs.runs()) {
    *at++ = static_cast<uint64_t>(run.kind);
    *at++ = run.begin;
    *at++ = run.length;
  }
  return words;
}

}  // namespace

ThinScanRequest ReadThinScan(Fields* source) {
  ThinScanRequest request;
  request.metadata = source->Path("metadata");
  request.superblock = source->Word("superblock");
  request.target = ReadDevice("target", source);
  if (!source->IsNull("base")) request.base = ReadDevice("base", source);
  if (!source->IsNull("retainedBase")) {
    Fields kept = source->Nested("retainedBase");
    request.kept_base_path = kept.Path("path");
    source->Adopt(kept);
  }
  if (request.base.has_value() && request.kept_base_path.has_value()) {
    source->Reject("base and retainedBase must not both be given");
  }
  return request;
}

Napi::Value ThinDeltaBinding(const Napi::CallbackInfo& info) {
  Fields fields(info[0], "thinDelta");
  ThinScanRequest request;
  request.metadata = fields.Path("metadata");
  request.superblock = fields.Word("superblock");
  request.target.id = fields.Whole("target", kMaxDeviceId);
  if (!fields.IsNull("base")) {
    request.base = ThinDeviceRef{fields.Whole("base", kMaxDeviceId), std::nullopt};
  }
  request.include_same = fields.Boolean("includeSame");
  const uint64_t first_block = fields.Word("firstBlock");
  const uint64_t max_records = fields.Count("maxRecords");
  if (max_records > kMaxRecords) fields.Reject("maxRecords must be at most 65,536");
  if (!fields.ok()) return Failed(info.Env(), fields.TakeStatus());
  Result<DeltaList> list = ListDelta(request, first_block, max_records);
  if (!list.ok()) return Failed(info.Env(), list.status());
  Napi::Object answer = Success(info.Env());
  answer.Set("words", ToWords(info.Env(), list->runs));
  SetBigInt(&answer, "nextBlock", list->next_block);
  SetBoolean(&answer, "done", list->done);
  SetNumber(&answer, "nodes", list->nodes);
  return answer;
}

Napi::Value ThinKeepBaseBinding(const Napi::CallbackInfo& info) {
  Fields fields(info[0], "thinKeepBase");
  KeepBaseRequest request;
  request.metadata = fields.Path("metadata");
  request.superblock = fields.Word("superblock");
  request.device = ReadDevice("device", &fields);
  request.size_bytes = fields.Bytes("sizeBytes");
  request.temporary_path = fields.Path("temporaryPath");
  request.path = fields.Path("path");
  if (!fields.ok()) return Failed(info.Env(), fields.TakeStatus());
  Result<KeptBaseFile> kept = KeepBase(request);
  if (!kept.ok()) return Failed(info.Env(), kept.status());
  Napi::Object answer = Success(info.Env());
  SetBigInt(&answer, "fileBytes", kept->file_bytes);
  SetNumber(&answer, "creationTime", kept->info.creation_time);
  SetBigInt(&answer, "mappedBlocks", kept->info.mapped_blocks);
  return answer;
}

}  // namespace blockdelta
