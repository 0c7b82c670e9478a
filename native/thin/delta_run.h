// What a walk of mapping trees finds: runs of blocks of one kind.
#ifndef BLOCKDELTA_NATIVE_THIN_DELTA_RUN_H_
#define BLOCKDELTA_NATIVE_THIN_DELTA_RUN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace blockdelta {

// As thin_delta calls them; the numbers are those of ThinDeltaKind in src/native/thin-addon.ts.
enum class DeltaKind : uint8_t {
  kSame = 0,       // Mapped on both sides, to the same data.
  kLeftOnly = 1,   // Mapped on the left side alone: discarded since.
  kRightOnly = 2,  // Mapped on the right side alone.
  kDifferent = 3,  // Mapped on both sides, to other data.
};

// Virtual blocks [begin, begin + length).
struct DeltaRun {
  DeltaKind kind;
  uint64_t begin;
  uint64_t length;

  uint64_t end() const { return begin + length; }
};

// Runs in ascending order, neighbours of one kind joined.
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
