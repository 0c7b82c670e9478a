// Writes down what later deltas need of a snapshot that is about to be deleted.
#ifndef BLOCKDELTA_NATIVE_THIN_KEEP_BASE_H_
#define BLOCKDELTA_NATIVE_THIN_KEEP_BASE_H_

#include <cstdint>
#include <string>

#include "native/thin/kept_base.h"
#include "native/thin/thin_scan.h"

namespace blockdelta {

struct KeepBaseRequest {
  std::string metadata;
  uint64_t superblock;
  ThinDeviceRef device;
  // Of the volume; mappings beyond it do not count.
  uint64_t size_bytes;
  // In one directory.
  std::string temporary_path;
  std::string path;
};

struct KeptBaseFile {
  uint64_t file_bytes;
  KeptBaseInfo info;
};

// The file is durable when this returns; one that is there is checked and told instead. A left-over
// of the temporary name is replaced. EINVAL if the snapshot was written to; SCAN_UNSUPPORTED if its
// creation time is past what mappings can hold; what a scan fails with.
Result<KeptBaseFile> KeepBase(const KeepBaseRequest& request);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_KEEP_BASE_H_
