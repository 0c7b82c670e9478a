// A prepared scan of thin devices: opens the metadata, finds the trees, and afterwards proves that
// the trees did not change.
//
// Shared by fillMetadata, thinDelta and createThinBookmark. Knows no bytes of a volume.
#ifndef BLOCKDELTA_NATIVE_THIN_THIN_SCAN_H_
#define BLOCKDELTA_NATIVE_THIN_THIN_SCAN_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "native/thin/bookmark.h"
#include "native/thin/delta_walk.h"
#include "native/thin/device_lookup.h"

namespace blockdelta {

struct ThinScanRequest {
  std::string metadata;
  // Superblock for the lookup of devices without a root; 0 for the current one.
  uint64_t superblock = 0;
  ThinDeviceRef target = {0, std::nullopt};
  // At most one of these two is set.
  std::optional<ThinDeviceRef> base;
  std::optional<std::string> bookmark_path;
  bool include_same = false;
  // Without a base: report mappings as young as the target as kDifferent. A snapshot that was never
  // written to has no such mappings.
  bool mark_young = false;
};

class ThinScan {
 public:
  // ENODATA if a device does not exist; SCAN_UNSUPPORTED if the bookmark cannot be compared with
  // the target; THIN_METADATA_INVALID; errnos.
  static Result<std::unique_ptr<ThinScan>> Open(const ThinScanRequest& request);

  DeltaWalk* walk() { return &*walk_; }
  // Number of nodes of mapping trees read so far.
  uint64_t nodes() const { return reader_->nodes(); }
  uint64_t data_block_bytes() const { return superblock_.data_block_bytes; }
  // Creation time of the target. REQUIRES: mark_young or a bookmark in the request.
  uint32_t creation_time() const { return target_.creation_time; }

  // Call this after the last read, with its result. Succeeds if `status` is success and the devices
  // are unchanged. SCAN_REPLACED if they changed, even in place of THIN_METADATA_INVALID: the
  // blocks of a deleted device may contain anything. Otherwise the result is `status`.
  Status Confirm(Status status);

 private:
  explicit ThinScan(std::unique_ptr<BlockSource> source) : source_(std::move(source)) {}
  Status FindDevices(const ThinScanRequest& request);
  Status OpenBookmark(const std::string& path);
  uint64_t RootOf(const ThinDeviceRef& ref, const ThinDevice& found);

  std::unique_ptr<BlockSource> source_;
  Superblock superblock_;
  ThinDevice target_;
  uint64_t target_root_ = 0;
  std::optional<uint64_t> base_root_;
  uint64_t lookup_superblock_ = 0;
  // The devices and roots that Confirm() checks.
  std::vector<ThinDeviceRef> refs_;
  std::optional<MappingReader> reader_;
  std::unique_ptr<Bookmark> bookmark_;
  std::optional<DeltaWalk> walk_;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_THIN_SCAN_H_
