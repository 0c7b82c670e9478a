// A clone of a volume's file that is made ahead of a freeze, so that the freeze covers only what
// was written last.
//
// FICLONE stops the writers of its source for about 10 us per extent, and a freeze around FICLONE
// stops them for that whole time. So the file is cloned before the freeze, in FICLONERANGE pieces
// between which writers continue, and brought up to date a few times. Only the ranges in which the
// volume's file and the clone may differ are cloned again under the freeze.
//
// The result equals the frozen volume, byte by byte, for these reasons:
// 1. Under the freeze the volume's file does not change, and everything written to it is flushed:
//    its extent map and its blocks are final.
// 2. The clone's own map was read before the freeze and is still true: the clone has been immutable
//    since, as its change time shows, and on XFS nothing relocates extents of an immutable file
//    (address_fence.h). Nobody else writes to the clone, because nobody knows its name.
// 3. Where both maps show data at one address, both files have the same blocks at that moment, and
//    so the same bytes. Whether the block is shared proves nothing and is not checked. Where both
//    show a hole or an unwritten extent, both files read as zeros: the rule of interval_walk.h.
// 4. Everything else is cloned again under the freeze: another address, a hole against data, an
//    unclear extent.
// Afterwards the clone shares its blocks with the volume, and writes to the volume go elsewhere.
//
// The writers of the source must be stopped: otherwise the two maps describe no single moment, and
// only a FICLONE of the whole file is atomic. Only XFS qualifies: btrfs relocates immutable files.
#ifndef BLOCKDELTA_NATIVE_DEVICE_PRE_CLONE_H_
#define BLOCKDELTA_NATIVE_DEVICE_PRE_CLONE_H_

#include <memory>
#include <string>
#include <vector>

#include "native/device/files.h"
#include "native/scan/extent_source.h"

namespace blockdelta {

// Returns the number of extents of a file: at once on XFS, elsewhere by reading its map.
Result<uint64_t> CountExtents(const std::string& path);

class PreClone {
 public:
  // `source_fd` is open on the volume's file. `file` is the empty clone. Both must outlive this.
  PreClone(int source_fd, std::string source_path, const NewFile* file)
      : source_fd_(source_fd), source_path_(std::move(source_path)), file_(file) {}
  PreClone(const PreClone&) = delete;
  // Leaves the clone mutable, so that it can be removed.
  ~PreClone();

  // Clones the source, or brings the clone up to date, while the source is written to. Does nothing
  // for a source with few extents or on a file system other than XFS. If anything fails, Complete()
  // clones the whole file, and reports a failure of that.
  void Prepare();
  // Makes the clone equal to the source. REQUIRES: the source is flushed, and nothing writes it
  // until this returns.
  Status Complete();

  // For tests: the number of ranges that Complete() cloned; 1 if it cloned the whole file.
  uint64_t completed_ranges() const { return completed_ranges_; }

 private:
  struct Range {
    uint64_t offset;
    uint64_t end;
  };

  Result<bool> IsWorthwhile() const;
  Status TryPrepare();
  Status CloneInPieces();
  // Brings the clone up to date until little is left to do.
  Status Refresh();
  // Makes the clone immutable and reads its map.
  Status Hold();
  Result<bool> IsHeld() const;
  // The ranges in which the source may differ from the clone, whose map is `clone_map`.
  Result<std::vector<Range>> Differences(ExtentSource* clone_map) const;
  Status CloneRange(const Range& range) const;
  Status CloneRanges(const std::vector<Range>& ranges) const;
  Status CloneWhole();
  Status Release();

  const int source_fd_;
  const std::string source_path_;
  const NewFile* const file_;
  uint64_t size_bytes_ = 0;
  bool is_cloned_ = false;
  bool is_immutable_ = false;
  struct timespec held_since_ = {};
  // The clone's map while it is held.
  std::unique_ptr<ExtentSource> held_map_;
  uint64_t completed_ranges_ = 0;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_PRE_CLONE_H_
