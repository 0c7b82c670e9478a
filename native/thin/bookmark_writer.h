// Writes the file of a kept base, page by page.
#ifndef BLOCKDELTA_NATIVE_THIN_KEPT_BASE_WRITER_H_
#define BLOCKDELTA_NATIVE_THIN_KEPT_BASE_WRITER_H_

#include <cstdint>
#include <string>

#include "native/thin/kept_base.h"

namespace blockdelta {

class KeptBaseWriter {
 public:
  // Replaces what is there. The counts in `info` are those of what will be added.
  static Result<KeptBaseWriter> Create(const std::string& path, const KeptBaseInfo& info);

  // REQUIRES: begin < end <= size_blocks; above the range before, with a gap between them.
  Status Add(uint64_t begin, uint64_t end);
  // Writes what is left, and makes it durable; the directory is the caller's to sync.
  Status Finish();

 private:
  KeptBaseWriter(UniqueFd fd, std::string path, const KeptBaseInfo& info);

  Status AddRange(uint64_t begin, uint64_t end);
  Status AddBits(uint64_t begin, uint64_t end);
  Status GoTo(uint64_t page);
  Status WritePage();

  UniqueFd fd_;
  std::string path_;
  KeptBaseInfo info_;
  BlockBuffer page_{1};
  uint64_t number_ = 0;
  uint64_t ranges_ = 0;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_KEPT_BASE_WRITER_H_
