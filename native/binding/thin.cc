#include "native/binding/thin.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "native/binding/values.h"
#include "native/thin/device_tree.h"
#include "native/thin/open_source.h"
#include "native/thin/superblock.h"
#include "native/thin/thin_format.h"

namespace blockdelta {
namespace {

constexpr size_t kMaxDevices = 65'536;

struct OpenMetadata {
  std::unique_ptr<BlockSource> source;
  Superblock superblock;
};

// REQUIRES: the request is ok.
Result<OpenMetadata> Open(const std::string& path, uint64_t superblock_number) {
  Result<std::unique_ptr<BlockSource>> source = OpenBlockSource(path);
  if (!source.ok()) return source.TakeStatus();
  Result<Superblock> superblock = ReadSuperblock(source->get(), superblock_number);
  if (!superblock.ok()) return superblock.TakeStatus();
  return OpenMetadata{std::move(*source), *superblock};
}

WantedKeys ReadDeviceIds(Fields* request) {
  if (request->IsNull("deviceIds")) return WantedKeys::All();
  return WantedKeys::Only(request->Numbers("deviceIds", kMaxDeviceId, kMaxDevices));
}

Napi::Object ToObject(Napi::Env env, const Superblock& superblock) {
  Napi::Object object = Napi::Object::New(env);
  SetNumber(&object, "checksum", superblock.checksum);
  SetBoolean(&object, "needsCheck", superblock.needs_check);
  SetNumber(&object, "time", superblock.time);
  SetBigInt(&object, "transactionId", superblock.transaction_id);
  if (superblock.held_root == 0) {
    object.Set("heldRoot", env.Null());
  } else {
    SetBigInt(&object, "heldRoot", superblock.held_root);
  }
  SetBigInt(&object, "mappingRoot", superblock.mapping_root);
  SetBigInt(&object, "detailsRoot", superblock.details_root);
  SetBigInt(&object, "dataBlockBytes", superblock.data_block_bytes);
  SetBigInt(&object, "dataBlocks", superblock.data_blocks);
  SetBigInt(&object, "metadataBlocks", superblock.metadata_blocks);
  return object;
}

Napi::Object ToObject(Napi::Env env, const ThinDevice& device) {
  Napi::Object object = Napi::Object::New(env);
  SetNumber(&object, "deviceId", device.id);
  SetBigInt(&object, "root", device.root);
  SetBigInt(&object, "mappedBlocks", device.mapped_blocks);
  SetBigInt(&object, "transactionId", device.transaction_id);
  SetNumber(&object, "creationTime", device.creation_time);
  SetNumber(&object, "snapshottedTime", device.snapshotted_time);
  return object;
}

}  // namespace

Napi::Value ThinSuperblockBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "thinSuperblock");
  const std::string path = request.Path("metadata");
  const uint64_t number = request.Word("superblock");
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  Result<OpenMetadata> metadata = Open(path, number);
  if (!metadata.ok()) return Failed(info.Env(), metadata.status());
  Napi::Object answer = Success(info.Env());
  answer.Set("superblock", ToObject(info.Env(), metadata->superblock));
  return answer;
}

Napi::Value ThinDevicesBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "thinDevices");
  const std::string path = request.Path("metadata");
  const uint64_t number = request.Word("superblock");
  const WantedKeys ids = ReadDeviceIds(&request);
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  Result<OpenMetadata> metadata = Open(path, number);
  if (!metadata.ok()) return Failed(info.Env(), metadata.status());
  Result<ThinDeviceList> list =
      ListThinDevices(metadata->source.get(), metadata->superblock, ids, kMaxDevices);
  if (!list.ok()) return Failed(info.Env(), list.status());
  Napi::Array devices = Napi::Array::New(info.Env(), list->devices.size());
  for (uint32_t i = 0; i < list->devices.size(); i++) {
    devices.Set(i, ToObject(info.Env(), list->devices[i]));
  }
  Napi::Object answer = Success(info.Env());
  answer.Set("devices", devices);
  SetBoolean(&answer, "truncated", list->truncated);
  return answer;
}

}  // namespace blockdelta
