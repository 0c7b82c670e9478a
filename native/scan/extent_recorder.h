// Passes a source of extents on and keeps what is read from it, so that a scan of a file can store
// the file's map at no cost.
#ifndef BLOCKDELTA_NATIVE_SCAN_EXTENT_RECORDER_H_
#define BLOCKDELTA_NATIVE_SCAN_EXTENT_RECORDER_H_

#include <vector>

#include "native/scan/extent_source.h"

namespace blockdelta {

class ExtentRecorder : public ExtentSource {
 public:
  // Both must outlive this.
  ExtentRecorder(ExtentSource* source, std::vector<Extent>* read) : source_(source), read_(read) {}

  void Seek(uint64_t offset) override { source_->Seek(offset); }

  Result<Span<const Extent>> Read(size_t wanted) override {
    Result<Span<const Extent>> batch = source_->Read(wanted);
    if (!batch.ok()) return batch;
    for (const Extent& extent : *batch) Record(extent);
    return batch;
  }

 private:
  // Keeps the part of an extent that is not kept yet: after a Seek() a scan reads some extents, or
  // parts of them, again. No part must be lost, because bytes without an extent count as zeros.
  void Record(const Extent& extent) {
    const uint64_t known = read_->empty() ? 0 : read_->back().end();
    if (extent.end() <= known) return;
    const uint64_t skipped = known > extent.logical ? known - extent.logical : 0;
    read_->push_back({extent.logical + skipped, extent.physical + skipped, extent.length - skipped,
                      extent.flags});
  }

  ExtentSource* const source_;
  std::vector<Extent>* const read_;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_SCAN_EXTENT_RECORDER_H_
