// Writes a file of thin metadata: `make-thin-metadata -o FILE [options]`, listed when run without
// any.
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>

#include "test/native/thin_scenario.h"

namespace blockdelta::test {
namespace {

constexpr char kUsage[] =
    R"(usage: make-thin-metadata -o FILE [options]
An origin (device 1) and a chain of snapshots of it (devices 2 and up, oldest first).
  --mapped N              blocks mapped in the origin at first (1000000)
  --snaps K               snapshots (2)
  --changed F             part of the mapped blocks changed between two snapshots (0.01)
  --pattern P             of the changes: random, sequential or clustered (random)
  --cluster N             blocks in a cluster (64)
  --new F --discard F     parts of the changes that map new blocks, that unmap blocks (0, 0)
  --discard-leaves N      whole leaves unmapped between two snapshots (0)
  --write-snapshots N     random blocks written to in each snapshot (0)
  --empty-device          one more device, with no mappings
  --density D             part of the virtual blocks that is mapped, the rest are holes (1)
  --fill F                how full the nodes are at first (0.75; a kernel's are nearer 0.9)
  --layout L              nodes on disk: shuffled or linear (shuffled, as after random writes)
  --data-order O          data blocks: linear or random (linear)
  --metadata-snap         hold a metadata snapshot
  --after N               blocks changed in the origin after the metadata snapshot (0)
  --data-block-sectors N  (128)
  --seed N                (1)
)";

// Takes the text of an option; whether it is valid.
using Take = std::function<bool(const std::string& text)>;

template <typename Value>
Take Into(Value* to) {
  return [to](const std::string& text) {
    std::istringstream in(text);
    return in >> *to && in.eof();
  };
}

Take Text(std::string* to) {
  return [to](const std::string& text) { return !(*to = text).empty(); };
}

// One of these words. That of an option without a value is empty.
template <typename Value>
Take Word(Value* to, std::map<std::string, Value> words) {
  return [to, words = std::move(words)](const std::string& text) {
    const auto found = words.find(text);
    if (found != words.end()) *to = found->second;
    return found != words.end();
  };
}

bool Parse(int argc, char** argv, std::string* out, ThinScenario* scenario) {
  const std::map<std::string, Take> options = {
      {"-o", Text(out)},
      {"--mapped", Into(&scenario->mapped)},
      {"--snaps", Into(&scenario->snapshots)},
      {"--changed", Into(&scenario->changed)},
      {"--pattern", Word(&scenario->pattern, {{"random", ChangePattern::kRandom},
                                              {"sequential", ChangePattern::kSequential},
                                              {"clustered", ChangePattern::kClustered}})},
      {"--cluster", Into(&scenario->cluster_blocks)},
      {"--new", Into(&scenario->added)},
      {"--discard", Into(&scenario->discarded)},
      {"--discard-leaves", Into(&scenario->discarded_leaves)},
      {"--write-snapshots", Into(&scenario->written_to_snapshots)},
      {"--empty-device", Word(&scenario->empty_device, {{"", true}})},
      {"--density", Into(&scenario->density)},
      {"--fill", Into(&scenario->fill)},
      {"--layout", Word(&scenario->shuffled_nodes, {{"shuffled", true}, {"linear", false}})},
      {"--data-order", Word(&scenario->shuffled_data, {{"random", true}, {"linear", false}})},
      {"--metadata-snap", Word(&scenario->metadata_snapshot, {{"", true}})},
      {"--after", Into(&scenario->changed_after)},
      {"--data-block-sectors", Into(&scenario->data_block_sectors)},
      {"--seed", Into(&scenario->seed)}};
  for (int i = 1; i < argc; i++) {
    const auto option = options.find(argv[i]);
    const bool has_value = i + 1 < argc && argv[i + 1][0] != '-';
    if (option == options.end() || !option->second(has_value ? argv[++i] : "")) return false;
  }
  return !out->empty() && scenario->mapped > 0 && scenario->snapshots <= 4000 &&
         scenario->cluster_blocks > 0 && scenario->density > 0 && scenario->density <= 1 &&
         scenario->fill >= 0.5 && scenario->fill <= 1;
}

}  // namespace
}  // namespace blockdelta::test

int main(int argc, char** argv) {
  std::string out;
  blockdelta::test::ThinScenario scenario;
  if (!blockdelta::test::Parse(argc, argv, &out, &scenario)) {
    std::fputs(blockdelta::test::kUsage, stderr);
    return 2;
  }
  const blockdelta::test::ThinPool pool = MakeThinPool(scenario);
  std::ofstream file(out, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(pool.image.data()),
             static_cast<std::streamsize>(pool.image.size()));
  if (!file.flush()) {
    std::fprintf(stderr, "make-thin-metadata: cannot write %s\n", out.c_str());
    return 1;
  }
  std::printf("%s: %llu metadata blocks, devices 1..%zu\n", out.c_str(),
              static_cast<unsigned long long>(pool.blocks()), pool.devices.size());
}
