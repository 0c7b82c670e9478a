#include "native/thin/device_tree.h"

#include <cerrno>
#include <string>
#include <utility>

#include "native/thin/metadata_block.h"
#include "native/thin/thin_format.h"

namespace blockdelta {
namespace {

constexpr KeyRange kDeviceIds = {0, kMaxDeviceId + 1};

// A mapping root is a leaf value, which CheckNode does not check as a child.
Status CheckRoot(const BlockSource& source, const Superblock& superblock,
                 const ThinDevice& device) {
  if (device.root != 0 && device.root < source.block_count()) return Status();
  return InvalidBlock(source.path(), superblock.mapping_root,
                      "expected the root of device " + std::to_string(device.id) +
                          " below it from 1 to below " + std::to_string(source.block_count()) +
                          ", found " + std::to_string(device.root));
}

// Reads ids and roots of at most limit + 1 devices.
Result<std::vector<ThinDevice>> ReadRoots(BlockSource* source, const Superblock& superblock,
                                          const WantedKeys& ids, size_t limit) {
  std::vector<ThinDevice> devices;
  Status status = WalkTree(source, {superblock.mapping_root, kDeviceIds, kMappingValueBytes}, ids,
                           [&](uint64_t id, const uint8_t* value) {
                             ThinDevice device;
                             device.id = id;
                             device.root = ReadLe64(value);
                             devices.push_back(device);
                             return devices.size() <= limit;
                           });
  for (const ThinDevice& device : devices) {
    if (status.ok()) status = CheckRoot(*source, superblock, device);
  }
  if (!status.ok()) return status;
  return devices;
}

void ReadDetails(const uint8_t* value, ThinDevice* device) {
  device->mapped_blocks = ReadLe64(value + details_format::kMappedBlocks);
  device->transaction_id = ReadLe64(value + details_format::kTransactionId);
  device->creation_time = ReadLe32(value + details_format::kCreationTime);
  device->snapshotted_time = ReadLe32(value + details_format::kSnapshottedTime);
}

Status Mismatch(const BlockSource& source, const Superblock& superblock, uint64_t id,
                const char* expected, const char* found) {
  return InvalidBlock(source.path(), superblock.details_root,
                      std::string("expected ") + expected + " device " + std::to_string(id) +
                          " below it, " + found);
}

// Adds the details of the devices. REQUIRES: `devices` are all wanted devices, or the first of
// them.
Status AddDetails(BlockSource* source, const Superblock& superblock, const WantedKeys& ids,
                  bool has_more, std::vector<ThinDevice>* devices) {
  size_t next = 0;
  Status mismatch;
  Status status = WalkTree(
      source, {superblock.details_root, kDeviceIds, details_format::kValueBytes}, ids,
      [&](uint64_t id, const uint8_t* value) {
        if (next == devices->size() || id < (*devices)[next].id) {
          mismatch = Mismatch(*source, superblock, id, "no details of", "which has no mappings");
          return false;
        }
        // A gap is reported below.
        if (id > (*devices)[next].id) return false;
        ReadDetails(value, &(*devices)[next++]);
        return !(has_more && next == devices->size());
      });
  if (!status.ok()) return status;
  if (!mismatch.ok() || next == devices->size()) return mismatch;
  return Mismatch(*source, superblock, (*devices)[next].id, "details of", "found none");
}

Status NoSuchDevice(const BlockSource& source, uint64_t id) {
  return Status::Errno(ENODATA, "look up", source.path(),
                       "there is no thin device " + std::to_string(id) + " in these trees");
}

}  // namespace

Result<ThinDeviceList> ListThinDevices(BlockSource* source, const Superblock& superblock,
                                       const WantedKeys& ids, size_t limit) {
  Result<std::vector<ThinDevice>> devices = ReadRoots(source, superblock, ids, limit);
  RETURN_IF_ERROR(devices);
  ThinDeviceList list;
  list.truncated = devices->size() > limit;
  RETURN_IF_ERROR(AddDetails(source, superblock, ids, list.truncated, &*devices));
  list.devices = std::move(*devices);
  if (list.truncated) list.devices.resize(limit);
  return list;
}

Result<ThinDevice> FindThinDevice(BlockSource* source, const Superblock& superblock, uint64_t id) {
  Result<ThinDeviceList> list = ListThinDevices(source, superblock, WantedKeys::Only({id}), 1);
  RETURN_IF_ERROR(list);
  if (list->devices.empty()) return NoSuchDevice(*source, id);
  return list->devices[0];
}

Result<uint64_t> FindThinRoot(BlockSource* source, const Superblock& superblock, uint64_t id) {
  Result<std::vector<ThinDevice>> devices =
      ReadRoots(source, superblock, WantedKeys::Only({id}), 1);
  RETURN_IF_ERROR(devices);
  if (devices->empty()) return NoSuchDevice(*source, id);
  return (*devices)[0].root;
}

}  // namespace blockdelta
