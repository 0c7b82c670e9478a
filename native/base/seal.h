// The seal of a snapshot file: its size and modification time at the moment of the snapshot, stored
// in an extended attribute of the file itself.
//
// The immutable flag blocks every change to the file, but root can clear the flag and set it again.
// Any write, truncation, hole punch or clone into the file in between updates the modification time
// and so breaks the seal. Toggling the flag alone keeps the seal intact, and so does anything that
// preserves content, size and modification time, such as moving the disk or copying the pool with
// its timestamps. Knows nothing of snapshots, and does not defend against root forging timestamps.
#ifndef BLOCKDELTA_NATIVE_BASE_SEAL_H_
#define BLOCKDELTA_NATIVE_BASE_SEAL_H_

#include <sys/stat.h>

#include <string>

#include "native/base/posix.h"

namespace blockdelta {

// Seals an open file in its present state. Nothing may write to the file afterwards. The caller
// syncs the file.
Status WriteSeal(int fd, const std::string& path);

// Whether the file matches its seal. True for a file without a seal: a restore may drop extended
// attributes.
Result<bool> MatchesSeal(int fd, const struct stat& state, const std::string& path);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_BASE_SEAL_H_
