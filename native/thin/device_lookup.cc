#include "native/thin/device_lookup.h"

#include <cerrno>
#include <string>
#include <utility>

#include "native/base/posix.h"

namespace blockdelta {
namespace {

// A pool commits once a second and at each flush of a device. A lookup takes a few reads.
constexpr unsigned kAttempts = 50;
constexpr unsigned kRestMs = 2;

// The checksum distinguishes commits whose roots are in the same blocks: the blocks of a commit can
// be reused two commits later.
bool IsSameCommit(const Superblock& a, const Superblock& b) {
  return a.checksum == b.checksum && a.mapping_root == b.mapping_root &&
         a.details_root == b.details_root && a.transaction_id == b.transaction_id;
}

// Calls `lookup` with superblock `number` until no commit happens during the call, and returns that
// superblock.
template <typename Lookup>
Result<Superblock> WithinCommit(BlockSource* source, uint64_t number, const Lookup& lookup) {
  for (unsigned attempt = 0; attempt < kAttempts; attempt++) {
    if (attempt > 0) SleepMs(kRestMs);
    Result<Superblock> superblock = ReadSuperblock(source, number);
    if (!superblock.ok()) return superblock;
    Status status = lookup(*superblock);
    Result<Superblock> again = ReadSuperblock(source, number);
    if (!again.ok()) return again;
    if (!IsSameCommit(*superblock, *again)) continue;
    if (!status.ok()) return status;
    return superblock;
  }
  return Status::Scan(kScanBusy, source->path(), "the pool of ",
                      " commits faster than its devices can be looked up");
}

Status Replaced(const BlockSource& source, const std::string& what) {
  return Status::Scan(kScanReplaced, source.path(), what);
}

Status ConfirmRoot(const BlockSource& source, const ThinDeviceRef& ref, uint64_t root) {
  if (root == *ref.root) return Status();
  return Replaced(source, "thin device " + std::to_string(ref.id) + " of " + source.path() +
                              " was written to or replaced: its mappings began at block " +
                              std::to_string(*ref.root) + ", and begin at " + std::to_string(root) +
                              " now");
}

}  // namespace

Result<DeviceLookup> LookUpDevices(BlockSource* source, uint64_t number,
                                   const std::vector<uint64_t>& ids) {
  std::vector<ThinDevice> devices;
  Result<Superblock> superblock =
      WithinCommit(source, number, [&](const Superblock& current) -> Status {
        devices.clear();
        for (const uint64_t id : ids) {
          Result<ThinDevice> device = FindThinDevice(source, current, id);
          RETURN_IF_ERROR(device);
          devices.push_back(*device);
        }
        return Status();
      });
  RETURN_IF_ERROR(superblock);
  return DeviceLookup{*superblock, std::move(devices)};
}

Status ConfirmDevices(BlockSource* source, uint64_t number,
                      const std::vector<ThinDeviceRef>& refs) {
  // Only roots are looked up: fewer reads fit between two commits more easily.
  std::vector<uint64_t> roots;
  Result<Superblock> superblock = WithinCommit(source, 0, [&](const Superblock& current) -> Status {
    roots.clear();
    for (const ThinDeviceRef& ref : refs) {
      Result<uint64_t> root = FindThinRoot(source, current, ref.id);
      RETURN_IF_ERROR(root);
      roots.push_back(*root);
    }
    return Status();
  });
  if (superblock.status().IsErrno(ENODATA)) {
    return Replaced(*source, "a thin device was deleted during the scan: " +
                                 superblock.status().failure().Message());
  }
  RETURN_IF_ERROR(superblock);
  if (number != 0 && superblock->held_root != number) {
    return Replaced(*source, "the metadata snapshot in block " + std::to_string(number) + " of " +
                                 source->path() + " was released during the scan");
  }
  for (size_t i = 0; i < refs.size(); i++) {
    RETURN_IF_ERROR(ConfirmRoot(*source, refs[i], roots[i]));
  }
  return Status();
}

}  // namespace blockdelta
