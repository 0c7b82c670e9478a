// Decides when equal addresses in two extent maps prove equal bytes.
//
// The two maps are read one after the other. If the file system relocates extents in between, an
// address that the first map shows for one file may hold other bytes of the other file when the
// second map is read. What rules this out depends on the file system:
//
// XFS moves extents only on request (xfs_fsr, dedupe, exchange-range) and refuses to for immutable
// files. It is enough that the files are immutable and unchanged before and after.
//
// btrfs also moves the extents of immutable files: balance always does, defragmentation does if
// root asks. But btrfs never reuses an address within the transaction that freed it: freed extents
// stay pinned until that transaction commits (and a block group with pinned extents is not removed,
// so its addresses cannot reappear in another one). A newly allocated address enters a file's map
// only through a transaction, and every transaction raises the generation. If the generation is
// unchanged, no address had two contents in between. This holds from Linux 6.1 on: earlier FIEMAP
// also returned addresses that data was still being written to, ahead of any transaction.
//
// On any other file system nothing is known, so nothing is proved.
#ifndef BLOCKDELTA_NATIVE_SCAN_ADDRESS_FENCE_H_
#define BLOCKDELTA_NATIVE_SCAN_ADDRESS_FENCE_H_

#include <cstdint>

#include "native/scan/snapshot_file.h"
#include "native/scan/windowed_scan.h"

namespace blockdelta {

class AddressFence : public Fence {
 public:
  // For a delta of two files; both must outlive this. Failures: SCAN_MUTABLE, SCAN_UNSUPPORTED,
  // errnos.
  static Result<AddressFence> ForPair(const SnapshotFile& target, const SnapshotFile& base);
  // For the allocated ranges of one file: no addresses are compared.
  static Result<AddressFence> ForOne(const SnapshotFile& target);

  Status Raise() override;
  Result<bool> Holds() override;
  bool extents_move() const override { return moves_; }

  // The btrfs transaction that is running, or the last one. REQUIRES: extents_move().
  Result<uint64_t> Generation() const;

  int fd() const { return fd_; }
  const std::string& path() const { return path_; }

 private:
  AddressFence(const SnapshotFile& target, bool moves, bool compares)
      : fd_(target.fd()), path_(target.path()), moves_(moves), compares_(compares) {}

  int fd_;
  std::string path_;
  bool moves_;
  bool compares_;
  uint64_t generation_ = 0;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_SCAN_ADDRESS_FENCE_H_
