#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "native/binding/functions.h"
#include "native/binding/requests.h"
#include "native/thin/create_bookmark.h"
#include "native/thin/delta_list.h"
#include "native/thin/device_tree.h"
#include "native/thin/exclusive_blocks.h"
#include "native/thin/file_source.h"
#include "native/thin/superblock.h"
#include "native/thin/thin_format.h"

namespace blockdelta {

static Napi::Value ToValue(Napi::Env env, const Superblock& superblock) {
  Napi::Object object = Napi::Object::New(env);
  SetNumber(&object, "checksum", superblock.checksum);
  SetBoolean(&object, "needsCheck", superblock.needs_check);
  SetNumber(&object, "time", superblock.time);
  SetBigInt(&object, "transactionId", superblock.transaction_id);
  object.Set("heldRoot",
             superblock.held_root == 0 ? env.Null() : ToValue(env, superblock.held_root));
  SetBigInt(&object, "mappingRoot", superblock.mapping_root);
  SetBigInt(&object, "detailsRoot", superblock.details_root);
  SetBigInt(&object, "dataBlockBytes", superblock.data_block_bytes);
  SetBigInt(&object, "dataBlocks", superblock.data_blocks);
  SetBigInt(&object, "metadataBlocks", superblock.metadata_blocks);
  return object;
}

static Napi::Value ToValue(Napi::Env env, const ThinDevice& device) {
  Napi::Object object = Napi::Object::New(env);
  SetNumber(&object, "deviceId", device.id);
  SetBigInt(&object, "root", device.root);
  SetBigInt(&object, "mappedBlocks", device.mapped_blocks);
  SetBigInt(&object, "transactionId", device.transaction_id);
  SetNumber(&object, "creationTime", device.creation_time);
  SetNumber(&object, "snapshottedTime", device.snapshotted_time);
  return object;
}

namespace {

constexpr size_t kMaxDevices = 65'536;
constexpr uint64_t kMaxRecords = 65'536;
constexpr size_t kWordsPerRun = 3;

struct OpenMetadata {
  std::unique_ptr<BlockSource> source;
  Superblock superblock;
};

Result<OpenMetadata> Open(const std::string& path, uint64_t superblock_number) {
  Result<std::unique_ptr<BlockSource>> source = OpenBlockSource(path);
  RETURN_IF_ERROR(source);
  Result<Superblock> superblock = ReadSuperblock(source->get(), superblock_number);
  RETURN_IF_ERROR(superblock);
  return OpenMetadata{std::move(*source), *superblock};
}

WantedKeys ReadDeviceIds(Fields* request) {
  if (request->IsNull("deviceIds")) return WantedKeys::All();
  return WantedKeys::Only(request->Integers("deviceIds", kMaxDeviceId, kMaxDevices));
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

void SetBookmark(Napi::Object* answer, const WrittenBookmark& bookmark) {
  SetBigInt(answer, "fileBytes", bookmark.file_bytes);
  SetNumber(answer, "creationTime", bookmark.info.creation_time);
  SetBigInt(answer, "mappedBlocks", bookmark.info.mapped_blocks);
}

Napi::Value ThinSuperblockBinding(Fields* request) {
  const std::string path = request->Path("metadata");
  const uint64_t number = request->Uint64("superblock");
  return Answer(
      request, [&] { return Open(path, number); },
      [](Napi::Object* answer, const OpenMetadata& metadata) {
        answer->Set("superblock", ToValue(answer->Env(), metadata.superblock));
      });
}

Napi::Value ThinDevicesBinding(Fields* request) {
  const std::string path = request->Path("metadata");
  const uint64_t number = request->Uint64("superblock");
  const WantedKeys ids = ReadDeviceIds(request);
  return Answer(
      request,
      [&]() -> Result<ThinDeviceList> {
        Result<OpenMetadata> metadata = Open(path, number);
        RETURN_IF_ERROR(metadata);
        return ListThinDevices(metadata->source.get(), metadata->superblock, ids, kMaxDevices);
      },
      [](Napi::Object* answer, const ThinDeviceList& list) {
        answer->Set("devices", ToValue(answer->Env(), list.devices));
        SetBoolean(answer, "truncated", list.truncated);
      });
}

struct ExclusiveBlocks {
  std::vector<ThinDevice> devices;
  std::vector<uint64_t> counts;
};

Napi::Value ThinExclusiveBinding(Fields* request) {
  const std::string path = request->Path("metadata");
  return Answer(
      request,
      [&]() -> Result<ExclusiveBlocks> {
        Result<OpenMetadata> metadata = Open(path, 0);
        RETURN_IF_ERROR(metadata);
        Result<ThinDeviceList> list = ListThinDevices(metadata->source.get(), metadata->superblock,
                                                      WantedKeys::All(), kMaxDeviceId + 1);
        RETURN_IF_ERROR(list);
        Result<std::vector<uint64_t>> counts =
            CountExclusiveBlocks(metadata->source.get(), metadata->superblock, list->devices);
        RETURN_IF_ERROR(counts);
        return ExclusiveBlocks{std::move(list->devices), std::move(*counts)};
      },
      [](Napi::Object* answer, const ExclusiveBlocks& found) {
        Napi::Array devices = Napi::Array::New(answer->Env(), found.devices.size());
        for (uint32_t i = 0; i < found.devices.size(); i++) {
          Napi::Object device = Napi::Object::New(answer->Env());
          SetNumber(&device, "deviceId", found.devices[i].id);
          SetBigInt(&device, "exclusiveBlocks", found.counts[i]);
          devices.Set(i, device);
        }
        answer->Set("devices", devices);
      });
}

Napi::Value ThinDeltaBinding(Fields* fields) {
  ThinScanRequest request;
  request.metadata = fields->Path("metadata");
  request.superblock = fields->Uint64("superblock");
  request.target.id = fields->Integer("target", kMaxDeviceId);
  if (!fields->IsNull("base")) {
    request.base = ThinDeviceRef{fields->Integer("base", kMaxDeviceId), std::nullopt};
  }
  request.include_same = fields->Boolean("includeSame");
  const uint64_t first_block = fields->Uint64("firstBlock");
  const uint64_t max_records = fields->Count("maxRecords");
  if (max_records > kMaxRecords) fields->Reject("maxRecords must be at most 65,536");
  return Answer(
      fields, [&] { return ListDelta(request, first_block, max_records); },
      [](Napi::Object* answer, const DeltaList& list) {
        answer->Set("words", ToWords(answer->Env(), list.runs));
        SetBigInt(answer, "nextBlock", list.next_block);
        SetBoolean(answer, "done", list.done);
        SetNumber(answer, "nodes", list.nodes);
      });
}

Napi::Value CreateThinBookmarkBinding(Fields* fields) {
  BookmarkRequest request;
  request.metadata = fields->Path("metadata");
  request.superblock = fields->Uint64("superblock");
  request.device = ReadThinDevice("device", fields);
  request.size_bytes = fields->Bytes("sizeBytes");
  request.temporary_path = fields->Path("temporaryPath");
  request.path = fields->Path("path");
  return Answer(
      fields, [&] { return CreateBookmark(request); }, SetBookmark);
}

Napi::Value VerifyThinBookmarkBinding(Fields* fields) {
  const std::string path = fields->Path("path");
  return Answer(
      fields, [&] { return VerifyBookmark(path); }, SetBookmark);
}

}  // namespace

ThinDeviceRef ReadThinDevice(const char* name, Fields* fields) {
  Fields device = fields->Object(name);
  ThinDeviceRef ref = {device.Integer("deviceId", kMaxDeviceId), std::nullopt};
  if (!device.IsNull("root")) ref.root = device.Uint64("root");
  fields->TakeProblem(device);
  return ref;
}

ThinScanRequest ReadThinScan(Fields* source) {
  ThinScanRequest request;
  request.metadata = source->Path("metadata");
  request.superblock = source->Uint64("superblock");
  request.target = ReadThinDevice("target", source);
  if (!source->IsNull("base")) request.base = ReadThinDevice("base", source);
  if (!source->IsNull("bookmark")) {
    Fields bookmark = source->Object("bookmark");
    request.bookmark_path = bookmark.Path("path");
    source->TakeProblem(bookmark);
  }
  if (request.base.has_value() && request.bookmark_path.has_value()) {
    source->Reject("base and bookmark are mutually exclusive");
  }
  return request;
}

void ExportThin(Napi::Object* exports) {
  Export<ThinSuperblockBinding>(exports, "thinSuperblock");
  Export<ThinDevicesBinding>(exports, "thinDevices");
  Export<ThinExclusiveBinding>(exports, "thinExclusive");
  Export<ThinDeltaBinding>(exports, "thinDelta");
  Export<CreateThinBookmarkBinding>(exports, "createThinBookmark");
  Export<VerifyThinBookmarkBinding>(exports, "verifyThinBookmark");
}

}  // namespace blockdelta
