// Runs of blocks of one kind, as found by a walk of mapping trees.
#ifndef BLOCKDELTA_NATIVE_THIN_DELTA_RUN_H_
#define BLOCKDELTA_NATIVE_THIN_DELTA_RUN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace blockdelta {

// Named as in thin_delta(8); the numbers equal ThinDeltaKind in src/driver/native/thin-addon.ts.
enum class DeltaKind : uint8_t {
  kSame = 0,       // Mapped on both sides, to the same data.
  kLeftOnly = 1,   // Mapped on the left side only: discarded since.
  kRightOnly = 2,  // Mapped on the right side only.
  kDifferent = 3,  // Mapped on both sides, to different data.
};

// Virtual blocks [begin, begin + length).
struct DeltaRun {
  DeltaKind kind;
  uint64_t begin;
  uint64_t length;

  uint64_t end() const { return begin + length; }
};

// Runs in ascending order, with adjacent runs of one kind joined.
class DeltaRuns {
 public:
  void Add(DeltaKind kind, uint64_t begin, uint64_t end) {
    if (!runs_.empty()) {
      DeltaRun& last = runs_.back();
      if (last.kind == kind && last.end() == begin) {
        last.length += end - begin;
        return;
      }
    }
    runs_.push_back({kind, begin, end - begin});
  }

  void Clear() { runs_.clear(); }
  size_t size() const { return runs_.size(); }
  const std::vector<DeltaRun>& runs() const { return runs_; }

 private:
  std::vector<DeltaRun> runs_;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_DELTA_RUN_H_
