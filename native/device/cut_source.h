// One volume of a cut, held open and checked to be what the caller thinks it is.
#ifndef BLOCKDELTA_NATIVE_DEVICE_CUT_SOURCE_H_
#define BLOCKDELTA_NATIVE_DEVICE_CUT_SOURCE_H_

#include <optional>
#include <string>
#include <vector>

#include "native/device/cut.h"
#include "native/device/freeze.h"

namespace blockdelta {

class CutSource {
 public:
  // ESTALE if the loop device belongs to another file.
  // EBUSY of flock if somebody holds an exclusive flock on the loop device, as a tool does that
  // must not stop half way: what it has written so far is no file system. Until the source is
  // closed no such tool begins.
  static Result<CutSource> Open(const CutMember& member);

  int fd() const { return file_.get(); }
  const std::string& path() const { return path_; }
  uint64_t size_bytes() const { return size_bytes_; }
  // 0: it is not attached.
  dev_t device() const { return device_; }
  bool IsFrozenForCut() const { return freeze_path_.has_value(); }
  // Attached, and nothing holds its writers back.
  bool IsRaw() const { return device_ != 0 && !IsFrozenForCut(); }

  // Freezes the file system on the loop device and no other: were it unmounted by now, the path
  // would lead to the file system below, maybe the one that the clone has to be written to.
  // REQUIRES: IsFrozenForCut().
  Result<Freeze> BeginFreeze(Guardian* guardian) const;
  // Writes back what the file system holds, so that freezing it finds little left to write. Fails
  // if some of it could not be written: it is lost then, and a snapshot would lack it. REQUIRES:
  // IsFrozenForCut().
  Status SyncFileSystem() const;
  // Carries everything written so far into the file.
  Status Flush() const;

 private:
  CutSource() = default;
  Result<UniqueFd> OpenMount() const;
  Status OpenLoopOf(const CutMember& member, const struct stat& file);

  UniqueFd file_;
  std::string path_;
  uint64_t size_bytes_ = 0;
  UniqueFd loop_;
  std::string loop_path_;
  dev_t device_ = 0;
  std::optional<std::string> freeze_path_;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_CUT_SOURCE_H_
