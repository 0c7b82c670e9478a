#include "native/thin/device_lookup.h"

#include <cerrno>
#include <string>
#include <utility>

#include "native/base/posix.h"

namespace blockdelta {
namespace {

// A pool commits once a second, and at each flush of a device. A look takes a few reads.
constexpr unsigned kAttempts = 50;
constexpr unsigned kRestMs = 2;

bool IsSameCommit(const Superblock& a, const Superblock& b) {
  return a.mapping_root == b.mapping_root && a.details_root == b.details_root &&
         a.transaction_id == b.transaction_id && a.time == b.time && a.held_root == b.held_root;
}

Status LookOnce(BlockSource* source, const std::vector<uint64_t>& ids, DeviceLookup* lookup) {
  lookup->devices.clear();
  for (const uint64_t id : ids) {
    Result<ThinDevice> device = FindThinDevice(source, lookup->superblock, id);
    if (!device.ok()) return device.TakeStatus();
    lookup->devices.push_back(*device);
  }
  return Status();
}

Status Replaced(const BlockSource& source, const std::string& what) {
  return Status::Scan(kScanReplaced, source.path(), what);
}

Status ConfirmRoot(const BlockSource& source, const ThinDeviceRef& ref, const ThinDevice& device) {
  if (device.root == *ref.root) return Status();
  return Replaced(source, "thin device " + std::to_string(ref.id) + " of " + source.path() +
                              " was written to or replaced: its mappings began at block " +
                              std::to_string(*ref.root) + ", and begin at " +
                              std::to_string(device.root) + " now");
}

}  // namespace

Result<DeviceLookup> LookUpDevices(BlockSource* source, uint64_t number,
                                   const std::vector<uint64_t>& ids) {
  for (unsigned attempt = 0; attempt < kAttempts; attempt++) {
    if (attempt > 0) SleepMs(kRestMs);
    Result<Superblock> superblock = ReadSuperblock(source, number);
    if (!superblock.ok()) return superblock.TakeStatus();
    DeviceLookup lookup = {*superblock, {}};
    Status status = LookOnce(source, ids, &lookup);
    Result<Superblock> again = ReadSuperblock(source, number);
    if (!again.ok()) return again.TakeStatus();
    if (!IsSameCommit(*superblock, *again)) continue;
    if (!status.ok()) return status;
    return lookup;
  }
  return Replaced(*source, "the pool of " + source->path() +
                               " commits faster than its devices can be looked up");
}

Status ConfirmDevices(BlockSource* source, uint64_t number,
                      const std::vector<ThinDeviceRef>& refs) {
  std::vector<uint64_t> ids;
  for (const ThinDeviceRef& ref : refs) ids.push_back(ref.id);
  Result<DeviceLookup> lookup = LookUpDevices(source, 0, ids);
  if (lookup.status().IsErrno(ENODATA)) {
    return Replaced(*source,
                    "a thin device was deleted meanwhile: " + lookup.status().failure().message);
  }
  if (!lookup.ok()) return lookup.TakeStatus();
  if (number != 0 && lookup->superblock.held_root != number) {
    return Replaced(*source, "the metadata snapshot in block " + std::to_string(number) + " of " +
                                 source->path() + " was released meanwhile");
  }
  for (size_t i = 0; i < refs.size(); i++) {
    Status status = ConfirmRoot(*source, refs[i], lookup->devices[i]);
    if (!status.ok()) return status;
  }
  return Status();
}

}  // namespace blockdelta
