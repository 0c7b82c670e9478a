// The seal of a snapshot file: its size and its modification time, as the file had them when it was
// taken, kept in an extended attribute of the file itself.
//
// The immutable flag stops everything that would change the file, but the flag can be cleared and
// set again. Whatever writes, truncates, punches or clones into the file meanwhile leaves a new
// modification time, and so breaks the seal. Clearing and setting the flag alone does not, nor does
// anything that keeps content, size and modification time: moving the disk, or a copy of the pool
// that preserves them. Knows nothing of snapshots, and is no defence against root forging times.
#ifndef BLOCKDELTA_NATIVE_BASE_SEAL_H_
#define BLOCKDELTA_NATIVE_BASE_SEAL_H_

#include <sys/stat.h>

#include <string>

#include "native/base/posix.h"

namespace blockdelta {

// Seals an open file in its present state; the caller syncs it. Nothing may write to it afterwards.
Status WriteSeal(int fd, const std::string& path);

// Whether the file is as its seal says. True for one without a seal: files that older releases
// made, or that were restored without extended attributes, have none.
Result<bool> MatchesSeal(int fd, const struct stat& state, const std::string& path);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_BASE_SEAL_H_
