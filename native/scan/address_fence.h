// Decides when equal addresses in two extent maps prove equal bytes.
//
// Two maps are read one after the other. If the file system relocates extents meanwhile, an address
// that the first map gave to one file may be given to other bytes of the other file before the
// second map is read. What excludes that depends on the file system:
//
// XFS moves extents only on request (xfs_fsr, dedupe, exchange-range), and refuses that for
// immutable files. Immutable and unchanged before and after is enough.
//
// btrfs also moves the extents of immutable files: balance always, defragmentation when root asks.
// But it never gives an address away in the transaction in which it was freed: freed extents stay
// pinned until that transaction has committed (and a block group with pinned extents is not
// removed, so its addresses do not come back as another one's either). A newly allocated address
// gets into a file's map only by a transaction, and a transaction that begins makes the generation
// grow. So whoever finds the generation unchanged has seen no address with two contents in between.
// This holds from Linux 6.1 on: before, FIEMAP also showed addresses that data was still being
// written to, ahead of any transaction.
//
// Any other file system: nothing is known, so nothing is proved.
#ifndef BLOCKDELTA_NATIVE_SCAN_ADDRESS_FENCE_H_
#define BLOCKDELTA_NATIVE_SCAN_ADDRESS_FENCE_H_

#include <cstdint>

#include "native/scan/fence.h"
#include "native/scan/snapshot_file.h"

namespace blockdelta {

class AddressFence : public Fence {
 public:
  // For a pair of files; both must outlive this. Failures: SCAN_MUTABLE, SCAN_UNSUPPORTED, errnos.
  static Result<AddressFence> ForPair(const SnapshotFile& target, const SnapshotFile& base);
  // For one file: no address is compared, so nothing has to be excluded.
  static Result<AddressFence> ForOne(const SnapshotFile& target);

  Status Raise() override;
  Result<bool> Holds() override;
  bool extents_move() const override { return moves_; }

 private:
  AddressFence(const SnapshotFile& target, bool moves, bool compares)
      : fd_(target.fd()), path_(target.path()), moves_(moves), compares_(compares) {}

  Result<uint64_t> Generation() const;

  int fd_;
  std::string path_;
  bool moves_;
  bool compares_;
  uint64_t generation_ = 0;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_SCAN_ADDRESS_FENCE_H_
