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

struct ThinScenario {
  // Blocks mapped in the origin at first, and which part of the virtual blocks up to there they
  // are.
  uint64_t mapped = 1'000'000;
  double density = 1;
  // How full nodes are at first; a kernel's are nearer 0.9.
  double fill = 0.75;
  // Nodes lie in random order on the disk, as after random writes.
  bool shuffled_nodes = true;
  bool shuffled_data = false;
  uint64_t data_block_sectors = 128;
  // Devices 2 to snapshots + 1, oldest first.
  uint64_t snapshots = 2;
  // Between two snapshots: a part of the mapped blocks is changed, of these changes parts map new
  // blocks or unmap blocks; and so many whole leaves are unmapped.
  double changed = 0.01;
  ChangePattern pattern = ChangePattern::kRandom;
  uint64_t cluster_blocks = 64;
  double added = 0;
  double discarded = 0;
  uint64_t discarded_leaves = 0;
  // Random blocks written to in each snapshot itself, after it was made.
  uint64_t written_to_snapshots = 0;
  // One more device, with no mappings.
  bool empty_device = false;
  // Hold a metadata snapshot, and change so many blocks of the origin after it.
  bool metadata_snapshot = false;
  uint64_t changed_after = 0;
  uint64_t seed = 1;
};

ThinPool MakeThinPool(const ThinScenario& scenario);

}  // namespace blockdelta::test

#endif  // BLOCKDELTA_TEST_NATIVE_THIN_SCENARIO_H_
