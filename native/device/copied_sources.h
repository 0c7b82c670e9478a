// Clones volumes on btrfs out of a copy of their subvolume, so that their freeze does not last as
// long as the clones.
//
// FICLONE stops the writers of its source for about 5 us per extent, and a freeze around it stops
// them for all of that. A copy of the subvolume takes the same time for any number of extents.
// Under the freeze only the copy is made; the files are cloned from it while writers go on.
//
// Why a clone is the volume as it was frozen: under the freeze nothing writes to the volume's file,
// everything written before is flushed, and BTRFS_IOC_SNAP_CREATE_V2 waits for all writes of the
// subvolume that have been submitted and puts their extents into the copy. The copy is read-only,
// and the file in it is the one that was opened, because it has the same inode number.
//
// The file is cloned in pieces, each in a transaction of its own. The commit of a transaction stops
// whoever syncs a file, for as long as it takes to count the references of all extents that were
// cloned in it: about 10 s for a million. For the same reason the clone is committed and not
// logged: the log of a new file has an item for each hole between two extents.
//
// Only for sources whose writers are stopped: a direct write is acknowledged before its extent is
// in the tree, so a copy taken between two writes may lack the earlier one. Not for files that are
// overwritten in place (NOCOW): after a copy btrfs would write every file of the subvolume
// elsewhere once, not only the one that is cloned.
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
  // `path`: where the copy may be, while this exists; nothing: nowhere.
  explicit CopiedSources(std::optional<std::string> path) : path_(std::move(path)) {}

  // Before the freeze: chooses sources that must be frozen and for which a copy is worth its time,
  // all in one subvolume, and writes back what would make the copy slow. Chooses none if that
  // fails.
  void Prepare(const std::vector<SourceVolume>& sources);
  // Under the freeze: makes the copy. Chooses none any more if that fails.
  void Copy();
  bool IsChosen(size_t source) const { return source < chosen_.size() && chosen_[source]; }
  // After the freeze: clones a chosen source into an empty file.
  Status CloneInto(const SourceVolume& source, const NewFile& file) const;
  // Removes the copy. Chooses none.
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
