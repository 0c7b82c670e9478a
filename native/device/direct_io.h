// Decides whether a loop device may use direct I/O on its backing file.
//
// A file system with shared blocks cannot directly write a part of a shared block: such a write
// goes through the page cache (XFS: any write to a file that was ever cloned, unless aligned to the
// block). While that page is dirty, a direct write to another block of the same page cannot
// invalidate it, and the next fsync of the file fails with EIO ("Page cache invalidation failure on
// direct I/O"). Direct I/O is therefore safe only if every write is aligned to the block, or if no
// page contains two blocks.
//
// btrfs keeps a checksum of each block. Before Linux 6.15, btrfs computes the checksum and then
// writes the caller's buffer: if the buffer changes in between, the block and its clones cannot be
// read any more (EIO). Only a file that is written in place (NOCOW) has no checksums.
#ifndef BLOCKDELTA_NATIVE_DEVICE_DIRECT_IO_H_
#define BLOCKDELTA_NATIVE_DEVICE_DIRECT_IO_H_

#include <cstdint>
#include <string>

#include "native/base/posix.h"

namespace blockdelta {

// Whether writes in units of `sector_bytes` to a file in the file system of `fd` may be direct.
// `fd` may be opened with O_PATH. Assumes that any file may be cloned.
Result<bool> MayWriteDirectly(int fd, uint32_t sector_bytes, const std::string& path);

// Turns off direct I/O on every device whose backing file is in the file system of `directory` and
// for which direct I/O is unsafe. Skips devices that cannot be queried. Returns how many changed.
Result<uint32_t> EndUnsafeDirectIo(const std::string& directory);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_DIRECT_IO_H_
