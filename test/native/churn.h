// A volume's file that is changed at random, snapshots of it, and what a scan of them must contain.
#ifndef BLOCKDELTA_TEST_NATIVE_CHURN_H_
#define BLOCKDELTA_TEST_NATIVE_CHURN_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "native/device/take_snapshots.h"
#include "test/native/chunks.h"
#include "test/native/pool.h"
#include "test/native/status_assertions.h"

namespace blockdelta::test {

inline constexpr uint64_t kChurnBlock = 4096;
inline constexpr uint64_t kChurnBytes = 4 << 20;

// Takes a snapshot of a volume's file; whether that worked.
inline bool Take(const std::string& volume, const std::string& snapshot) {
  const NewSnapshotFile member = {
      volume, {snapshot + ".tmp", snapshot}, std::nullopt, std::nullopt};
  Result<TakenSnapshots> outcome = TakeSnapshots({member});
  EXPECT_OK(outcome);
  return outcome.ok();
}

// Expects every byte that differs (from zero, if there is no base) to be in a range.
inline void CheckCovers(const Scan& scan, const std::vector<uint8_t>& target,
                        const std::vector<uint8_t>& base) {
  EXPECT_TRUE(scan.complete);
  size_t at = 0;
  const auto same_up_to = [&](uint64_t end) {
    for (; at < end; at++) {
      if (target[at] == (at < base.size() ? base[at] : 0)) continue;
      ADD_FAILURE() << "missed byte " << at;
      return false;
    }
    return true;
  };
  for (const Range& range : scan.ranges) {
    if (!same_up_to(range.offset)) return;
    at = range.offset + range.size;
  }
  same_up_to(target.size());
}

// Writes, zeros, holes and preallocations at random; only writes if `only_writes`.
class Churn {
 public:
  Churn(std::string path, uint64_t seed, bool only_writes = false)
      : path_(std::move(path)), random_(seed), only_writes_(only_writes) {}

  uint64_t Below(uint64_t limit) {
    return std::uniform_int_distribution<uint64_t>(0, limit - 1)(random_);
  }

  void Step() {
    const uint64_t block = Below(kChurnBytes / kChurnBlock);
    const uint64_t count = std::min(1 + Below(8), kChurnBytes / kChurnBlock - block);
    const auto fill = static_cast<uint8_t>(Below(4) == 0 ? 0 : random_());
    switch (only_writes_ ? 6 : Below(6)) {
      case 0:
        return Allocate(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, block, count);
      case 1:
        return Allocate(FALLOC_FL_ZERO_RANGE, block, count);
      case 2:
        return Allocate(0, block, count);
      default:
        WriteBytes(path_, block * kChurnBlock, std::vector<uint8_t>(count * kChurnBlock, fill));
    }
  }

 private:
  // Not every file system does every kind.
  void Allocate(int mode, uint64_t block, uint64_t count) {
    Result<UniqueFd> fd = OpenPath(path_, O_RDWR);
    ASSERT_OK(fd);
    static_cast<void>(fallocate(fd->get(), mode, static_cast<off_t>(block * kChurnBlock),
                                static_cast<off_t>(count * kChurnBlock)));
  }

  const std::string path_;
  std::mt19937_64 random_;
  const bool only_writes_;
};

}  // namespace blockdelta::test

#endif  // BLOCKDELTA_TEST_NATIVE_CHURN_H_
