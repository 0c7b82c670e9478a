// The list that the peers of the suite `stream` send: every second block of 4 KiB holds data. The
// same as that of test/bench/streams/pattern.ts.
#ifndef BLOCKDELTA_NATIVE_BENCH_SYNTHETIC_LIST_H_
#define BLOCKDELTA_NATIVE_BENCH_SYNTHETIC_LIST_H_

#include <cstdint>
#include <cstdlib>
#include <string>

namespace blockdelta_bench {

constexpr uint64_t kExtentBytes = 4096;
constexpr uint64_t kStrideBytes = 8192;
// What a server chooses that is asked for no number.
constexpr uint64_t kEntriesPerMessage = 8192;

// The last twelve digits of a snapshot id are the number of entries, hexadecimal.
inline uint64_t EntriesOf(const std::string& snapshot_id) {
  constexpr size_t kDigits = 12;
  if (snapshot_id.size() < kDigits) return 0;
  return strtoull(snapshot_id.c_str() + snapshot_id.size() - kDigits, nullptr, 16);
}

inline uint64_t CapacityOf(uint64_t entries) { return entries * kStrideBytes; }

}  // namespace blockdelta_bench

#endif  // BLOCKDELTA_NATIVE_BENCH_SYNTHETIC_LIST_H_
