// Clones volumes on btrfs out of a copy of their subvolume, so that their freeze does not last as
// long as the clones.
//
// FICLONE stops the writers of its source for about 5 us per extent, and a freeze around FICLONE
// stops them for that whole time. A subvolume copy takes the same time for any number of extents.
// Only the copy is made under the freeze; the files are cloned from it while writers go on.
//
// A clone equals the frozen volume: under the freeze nothing writes to the volume's file,
// everything written before is flushed, and BTRFS_IOC_SNAP_CREATE_V2 waits for all submitted writes
// of the subvolume and puts their extents into the copy. The copy is read-only, and its file is the
// copy of the volume's file because both have the same inode number.
//
// The file is cloned in pieces, each in its own transaction. The commit of a transaction blocks
// every fsync until the references of all extents cloned in it are counted: about 10 s for a
// million. For the same reason the clone is committed and not logged: the log of a new file has an
// item for each hole between two extents.
//
// The writers of the sources must be stopped: a direct write is acknowledged before its extent is
// in the tree, so a copy taken between two writes may lack the earlier one. Files that are
// overwritten in place (NOCOW) are excluded: after a copy, btrfs would once write every file of the
// subvolume elsewhere, not only the cloned one.
#ifndef BLOCKDELTA_NATIVE_DEVICE_COPIED_SOURCES_H_
#define BLOCKDELTA_NATIVE_DEVICE_COPIED_SOURCES_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "native/device/source_volume.h"
#include "native/device/subvolume.h"

namespace blockdelta {

class CopiedSources {
 public:
  // `path` is where a copy may exist during the lifetime of this object; without it, none is made.
  explicit CopiedSources(std::optional<std::string> path) : path_(std::move(path)) {}

  // Called before the freeze. Chooses the sources, all in one subvolume, that must be frozen and
  // are worth a copy, and writes back what would make the copy slow. After a failure, chooses none.
  void Prepare(const std::vector<SourceVolume>& sources);
  // Called under the freeze. Makes the copy; after a failure, no source is chosen any more.
  void Copy();
  bool IsChosen(size_t source) const { return source < chosen_.size() && chosen_[source]; }
  // Called after the freeze. Clones a chosen source into an empty file.
  Status CloneInto(const SourceVolume& source, const NewFile& file) const;
  // Removes the copy; afterwards no source is chosen.
  void Clear();

 private:
  Status TryPrepare(const std::vector<SourceVolume>& sources);

  const std::optional<std::string> path_;
  UniqueFd subvolume_;
  std::string subvolume_path_;
  std::vector<bool> chosen_;
  std::optional<SubvolumeCopy> copy_;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_COPIED_SOURCES_H_
