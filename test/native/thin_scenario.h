// Thin metadata with a history: an origin, a chain of snapshots of it, and what changed between
// them.
//
// Devices share nodes as a kernel's do, and the times of mappings are those a kernel would have
// written: snapshot k has creation time k, and what is mapped after it has at least that time.
// thin_check finds the result clean. The same scenario gives the same image.
#ifndef BLOCKDELTA_TEST_NATIVE_THIN_SCENARIO_H_
#define BLOCKDELTA_TEST_NATIVE_THIN_SCENARIO_H_

#include <cstdint>

#include "test/native/thin_image.h"

namespace blockdelta::test {

enum class ChangePattern { kRandom, kSequential, kClustered };

// The options of program/make_thin_metadata.cc, which says what each is.
struct ThinScenario {
  uint64_t mapped = 1'000'000;
  uint64_t snapshots = 2;
  double changed = 0.01;
  ChangePattern pattern = ChangePattern::kRandom;
  uint64_t cluster_blocks = 64;
  double added = 0;
  double discarded = 0;
  uint64_t discarded_leaves = 0;
  uint64_t written_to_snapshots = 0;
  bool empty_device = false;
  double density = 1;
  double fill = 0.75;
  bool shuffled_nodes = true;
  bool shuffled_data = false;
  bool metadata_snapshot = false;
  uint64_t changed_after = 0;
  uint64_t data_block_sectors = 128;
  uint64_t seed = 1;
};

ThinPool MakeThinPool(const ThinScenario& scenario);

}  // namespace blockdelta::test

#endif  // BLOCKDELTA_TEST_NATIVE_THIN_SCENARIO_H_
