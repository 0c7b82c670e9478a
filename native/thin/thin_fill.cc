#include "native/thin/thin_fill.h"

#include <linux/fiemap.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "native/scan/extent_source.h"

namespace blockdelta {
namespace {

// Presents the runs of a scan as extents of a file: everything to report is data. When a call has
// read its maximum of nodes, two unwritten extents follow: one up to the examined offset, and one
// that is never entered. The source has paused when it returns the second one.
class RunSource final : public ExtentSource {
 public:
  // `runs` is the number of runs that are likely to be used.
  RunSource(ThinScan* scan, uint64_t size_bytes, uint64_t max_nodes, uint64_t runs)
      : scan_(scan),
        block_bytes_(scan->data_block_bytes()),
        size_bytes_(size_bytes),
        max_nodes_(max_nodes),
        likely_runs_(runs) {}

  void Seek(uint64_t offset) override {
    const uint64_t blocks = size_bytes_ / block_bytes_ + (size_bytes_ % block_bytes_ != 0 ? 1 : 0);
    given_ = offset;
    sought_ = scan_->walk()->Seek({offset / block_bytes_, blocks});
  }

  Result<Span<const Extent>> Read(size_t wanted) override {
    if (!sought_.ok()) return std::move(sought_);
    const size_t limit = std::min(wanted, kMaxBatchExtents);
    extents_.clear();
    while (extents_.empty() && !(runs_.empty() && scan_->walk()->done())) {
      if (runs_.empty()) {
        if (scan_->nodes() >= max_nodes_ && is_underway_) return Pause();
        Result<Span<const DeltaRun>> runs = scan_->walk()->Read(likely_runs_);
        RETURN_IF_ERROR(runs);
        runs_ = *runs;
        likely_runs_ -= std::min<uint64_t>(likely_runs_, runs->size());
        is_underway_ = true;
      }
      TakeRuns(limit);
    }
    return Batch();
  }

  // Number of extents returned by the last Read().
  size_t batch_extents() const { return extents_.size(); }
  bool paused() const { return paused_; }

 private:
  Span<const Extent> Batch() const { return {extents_.data(), extents_.size()}; }

  void TakeRuns(size_t limit) {
    const size_t count = std::min(limit, runs_.size());
    for (size_t i = 0; i < count; i++) {
      const DeltaRun& run = runs_[i];
      const uint64_t begin = run.begin * block_bytes_;
      const uint64_t end = EndOf(run.end());
      extents_.push_back({begin, begin, end - begin, 0});
      given_ = end;
    }
    runs_ = Span<const DeltaRun>(runs_.data() + count, runs_.size() - count);
  }

  // The end in bytes of the blocks below `block`, clipped to the volume.
  uint64_t EndOf(uint64_t block) const {
    return block > size_bytes_ / block_bytes_ ? size_bytes_ : block * block_bytes_;
  }

  Span<const Extent> Pause() {
    const uint64_t examined = EndOf(scan_->walk()->examined());
    const uint64_t end = given_ < examined ? examined : size_bytes_;
    paused_ = given_ >= examined;
    extents_.push_back({given_, given_, end - given_, FIEMAP_EXTENT_UNWRITTEN});
    given_ = end;
    return Batch();
  }

  ThinScan* const scan_;
  const uint64_t block_bytes_;
  const uint64_t size_bytes_;
  const uint64_t max_nodes_;
  uint64_t likely_runs_;
  Status sought_;
  Span<const DeltaRun> runs_;
  std::vector<Extent> extents_;
  // End of the extents returned so far.
  uint64_t given_ = 0;
  bool is_underway_ = false;
  bool paused_ = false;
};

// Runs the filler batch by batch, so that it stops exactly where the source pauses.
Result<FillOutcome> Fill(ThinScan* scan, uint64_t size_bytes, const FillLimits& limits,
                         Span<uint8_t> buffer, uint64_t max_nodes) {
  RunSource source(scan, size_bytes, max_nodes, limits.max_entries);
  IntervalWalk walk(&source, nullptr, size_bytes);
  MessageWriter writer(buffer, size_bytes, limits.max_entries_per_message);
  Filler filler(&walk, &writer, limits);
  Status status = filler.Seek();
  while (status.ok() && !filler.finished() && !source.paused()) {
    status = filler.Run(source.batch_extents());
  }
  if (!status.ok()) return status;
  return filler.Finish();
}

}  // namespace

Result<FillOutcome> FillFromThin(const ThinScanRequest& request, uint64_t size_bytes,
                                 const FillLimits& limits, Span<uint8_t> buffer,
                                 uint64_t max_nodes) {
  Result<std::unique_ptr<ThinScan>> scan = ThinScan::Open(request);
  RETURN_IF_ERROR(scan);
  Result<FillOutcome> outcome = Fill(scan->get(), size_bytes, limits, buffer, max_nodes);
  RETURN_IF_ERROR((*scan)->Confirm(outcome.TakeStatus()));
  outcome->nodes = (*scan)->nodes();
  return outcome;
}

}  // namespace blockdelta
