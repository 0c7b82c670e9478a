// The extent map of an open file, read with FS_IOC_FIEMAP.
//
// Reads and checks the map. Does not know what the extents are compared with, or whether the file
// may change meanwhile.
#ifndef BLOCKDELTA_NATIVE_SCAN_FIEMAP_SOURCE_H_
#define BLOCKDELTA_NATIVE_SCAN_FIEMAP_SOURCE_H_

#include <linux/fiemap.h>

#include <memory>
#include <string>
#include <vector>

#include "native/scan/extent_source.h"

namespace blockdelta {

class FiemapSource : public ExtentSource {
 public:
  // `fd` must stay open for the lifetime of this; `path` is for failures. Omits extents beyond
  // `size_bytes`: file systems also report space preallocated after the end of the file.
  FiemapSource(int fd, std::string path, uint64_t size_bytes);

  void Seek(uint64_t offset) override;
  // Failures: SCAN_UNSUPPORTED (the file system has no FIEMAP), SCAN_MAP_INVALID, errnos.
  Result<Span<const Extent>> Read(size_t wanted) override;

 private:
  Status Map(size_t wanted);
  Status Take(const struct fiemap_extent& from);

  const int fd_;
  const std::string path_;
  const uint64_t size_bytes_;
  // A request: struct fiemap followed by kMaxBatchExtents extents, aligned for both.
  std::vector<uint64_t> request_;
  std::vector<Extent> batch_;
  uint64_t position_ = 0;
  // The first extent after a Seek() may start before the position, the others must not.
  uint64_t previous_end_ = 0;
  bool at_end_ = false;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_SCAN_FIEMAP_SOURCE_H_
