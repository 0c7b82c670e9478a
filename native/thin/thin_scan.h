// One scan of thin devices, prepared: metadata open, trees found, and the proof at the end that
// what was read in between was theirs.
//
// What fillMetadata, thinDelta and createThinBookmark have in common. Knows no bytes of a volume.
#ifndef BLOCKDELTA_NATIVE_THIN_THIN_SCAN_H_
#define BLOCKDELTA_NATIVE_THIN_THIN_SCAN_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "native/thin/delta_walk.h"
#include "native/thin/device_lookup.h"
#include "native/thin/kept_base.h"

namespace blockdelta {

struct ThinScanRequest {
  std::string metadata;
  // Block of the superblock by which devices without a root are looked up; 0: the current one.
  uint64_t superblock = 0;
  ThinDeviceRef target = {0, std::nullopt};
  // One of them at most.
  std::optional<ThinDeviceRef> base;
  std::optional<std::string> kept_base_path;
  bool include_same = false;
  // Without a base: mappings that are as young as the target are kDifferent, which none is in a
  // snapshot that nobody has written to.
  bool mark_young = false;
};

class ThinScan {
 public:
  // ENODATA if a device does not exist; SCAN_UNSUPPORTED if what is kept cannot be compared with
  // the target; THIN_METADATA_INVALID; errnos.
  static Result<std::unique_ptr<ThinScan>> Open(const ThinScanRequest& request);

  DeltaWalk* walk() { return &*walk_; }
  // Nodes of mapping trees that were read.
  uint64_t nodes() const { return reader_->nodes(); }
  uint64_t data_block_bytes() const { return superblock_.data_block_bytes; }
  // Of the target. REQUIRES: it was asked for what is young, or against a kept base.
  uint32_t creation_time() const { return target_.creation_time; }

  // To be asked when everything was read, with what came of it: success only if it succeeded and
  // the devices are still those that were read. SCAN_REPLACED otherwise, also in place of
  // THIN_METADATA_INVALID: the blocks of a device that is gone may be anything.
  Status Confirm(Status status);

 private:
  explicit ThinScan(std::unique_ptr<BlockSource> source) : source_(std::move(source)) {}
  Status FindDevices(const ThinScanRequest& request);
  Status OpenKeptBase(const std::string& path);
  uint64_t RootOf(const ThinDeviceRef& ref, const ThinDevice& found);

  std::unique_ptr<BlockSource> source_;
  Superblock superblock_;
  ThinDevice target_;
  uint64_t target_root_ = 0;
  std::optional<uint64_t> base_root_;
  uint64_t held_ = 0;
  // What Confirm() looks up.
  std::vector<ThinDeviceRef> refs_;
  std::optional<MappingReader> reader_;
  std::unique_ptr<KeptBase> kept_;
  std::optional<DeltaWalk> walk_;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_THIN_SCAN_H_
