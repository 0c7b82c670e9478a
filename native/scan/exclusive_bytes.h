// How much space a file holds alone: what its removal gives back.
//
// The map of a file says which extents other files share. It does not say how large an extent of
// btrfs is: btrfs frees an extent when the last reference to any part of it goes, so a file that
// has overwritten most of an extent still holds all of it. Writes back the dirty data of the file,
// as every read of its map does, and changes nothing else.
#ifndef BLOCKDELTA_NATIVE_SCAN_EXCLUSIVE_BYTES_H_
#define BLOCKDELTA_NATIVE_SCAN_EXCLUSIVE_BYTES_H_

#include <cstdint>
#include <string>

#include "native/base/status.h"

namespace blockdelta {

// Exact for a file that nobody writes to, unless it shares an extent with itself. On XFS with the
// blocks of its map, on btrfs data only. On btrfs this needs CAP_SYS_ADMIN, and about 40 bytes of
// memory for each extent. Failures: those of FiemapSource and TreeSearchSource.
Result<uint64_t> CountExclusiveBytes(const std::string& path);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_SCAN_EXCLUSIVE_BYTES_H_
