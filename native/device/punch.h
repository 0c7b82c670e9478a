// Frees ranges of a block device: they read as zeros, and take no space where the device can give
// it back.
#ifndef BLOCKDELTA_NATIVE_DEVICE_PUNCH_H_
#define BLOCKDELTA_NATIVE_DEVICE_PUNCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "native/base/status.h"

namespace blockdelta {

struct ByteRange {
  uint64_t offset;
  uint64_t size;
};

// fallocate(FALLOC_FL_PUNCH_HOLE) on the device, which a loop device passes on to its file. ENOTBLK
// for anything but a block device; EINVAL for a range that is not of whole sectors or beyond the
// end; EOPNOTSUPP where the device can only write zeros. What a failed call has freed stays freed.
//
// `block_bytes` above 0 is for a device of dm-thin, which refuses fallocate: its whole blocks of
// this size read as zeros once they are discarded. Zeros are written to what else the ranges
// contain, unless it reads as zeros already: a write would allocate the block. A pool that is
// read-only ignores discards without a failure, so the caller has to look at its mode.
Status PunchDevice(const std::string& path, const std::vector<ByteRange>& ranges,
                   uint64_t block_bytes);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_PUNCH_H_
