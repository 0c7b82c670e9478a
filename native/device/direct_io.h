// When a loop device may write past the page cache of its file's file system.
//
// A file system that shares blocks between files cannot write a part of a shared block directly:
// such a write goes through the page cache (XFS: any write to a file that was ever cloned, unless
// it is aligned to the block). While the page is dirty there, a direct write to another block of
// the same page finds that it cannot drop it, and the next fsync of the file fails with EIO ("Page
// cache invalidation failure on direct I/O"). So either every write is aligned to the block, or no
// page has two blocks, or all I/O goes through the page cache.
#ifndef BLOCKDELTA_NATIVE_DEVICE_DIRECT_IO_H_
#define BLOCKDELTA_NATIVE_DEVICE_DIRECT_IO_H_

#include <cstdint>
#include <string>

#include "native/base/posix.h"

namespace blockdelta {

// Whether writes in units of `sector_bytes` to a file of `fd`'s file system may be direct. `fd` may
// be opened with O_PATH. Any file counts as one that may be cloned.
Result<bool> MayWriteDirectly(int fd, uint32_t sector_bytes, const std::string& path);

// Has the devices of the files that lie in the file system of `directory` write through the page
// cache, if they write directly and may not. Devices of others are left alone, and so are those
// that cannot be asked. Returns how many were changed.
Result<uint32_t> EndUnsafeDirectIo(const std::string& directory);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_DIRECT_IO_H_
