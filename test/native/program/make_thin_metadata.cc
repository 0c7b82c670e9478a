// Writes a file of thin metadata: `make-thin-metadata -o FILE [options]`, listed when run without
// any.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
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
  --meta-blocks N         size of the file in blocks of 4 KiB (as needed)
  --seed N                (1)
)";

// The reader of an option's value, or of none.
struct Option {
  bool has_value;
  std::function<bool(const std::string&)> take;
};

Option Number(uint64_t* to) {
  return {true, [to](const std::string& text) {
            char* end = nullptr;
            *to = std::strtoull(text.c_str(), &end, 0);
            return !text.empty() && *end == '\0';
          }};
}

Option Fraction(double* to) {
  return {true, [to](const std::string& text) {
            char* end = nullptr;
            *to = std::strtod(text.c_str(), &end);
            return !text.empty() && *end == '\0' && *to >= 0;
          }};
}

// One of two words.
Option Choice(bool* to, const char* no, const char* yes) {
  return {true, [=](const std::string& text) {
            *to = text == yes;
            return text == yes || text == no;
          }};
}

Option Switch(bool* to) {
  return {false, [to](const std::string&) { return *to = true; }};
}

Option Pattern(ChangePattern* to) {
  return {true, [to](const std::string& text) {
            static const std::map<std::string, ChangePattern> patterns = {
                {"random", ChangePattern::kRandom},
                {"sequential", ChangePattern::kSequential},
                {"clustered", ChangePattern::kClustered}};
            const auto found = patterns.find(text);
            if (found != patterns.end()) *to = found->second;
            return found != patterns.end();
          }};
}

struct CommandLine {
  std::string out;
  ThinScenario scenario;
  uint64_t data_block_sectors = 128;

  std::map<std::string, Option> Options() {
    return {{"-o", {true, [this](const std::string& text) { return !(out = text).empty(); }}},
            {"--mapped", Number(&scenario.mapped)},
            {"--snaps", Number(&scenario.snapshots)},
            {"--changed", Fraction(&scenario.changed)},
            {"--pattern", Pattern(&scenario.pattern)},
            {"--cluster", Number(&scenario.cluster_blocks)},
            {"--new", Fraction(&scenario.added)},
            {"--discard", Fraction(&scenario.discarded)},
            {"--discard-leaves", Number(&scenario.discarded_leaves)},
            {"--write-snapshots", Number(&scenario.written_to_snapshots)},
            {"--empty-device", Switch(&scenario.empty_device)},
            {"--density", Fraction(&scenario.density)},
            {"--fill", Fraction(&scenario.fill)},
            {"--layout", Choice(&scenario.shuffled_nodes, "linear", "shuffled")},
            {"--data-order", Choice(&scenario.shuffled_data, "linear", "random")},
            {"--metadata-snap", Switch(&scenario.metadata_snapshot)},
            {"--after", Number(&scenario.changed_after)},
            {"--data-block-sectors", Number(&data_block_sectors)},
            {"--meta-blocks", Number(&scenario.metadata_blocks)},
            {"--seed", Number(&scenario.seed)}};
  }

  bool IsSound() const {
    return !out.empty() && scenario.mapped > 0 && scenario.snapshots <= 4000 &&
           scenario.cluster_blocks > 0 && scenario.density > 0 && scenario.density <= 1 &&
           scenario.fill >= 0.5 && scenario.fill <= 1;
  }
};

bool Parse(int argc, char** argv, CommandLine* line) {
  const std::map<std::string, Option> options = line->Options();
  for (int i = 1; i < argc; i++) {
    const auto option = options.find(argv[i]);
    if (option == options.end()) return false;
    const bool has_value = option->second.has_value;
    if (has_value && ++i == argc) return false;
    if (!option->second.take(has_value ? argv[i] : "")) return false;
  }
  line->scenario.data_block_sectors = static_cast<uint32_t>(line->data_block_sectors);
  return line->IsSound();
}

}  // namespace
}  // namespace blockdelta::test

int main(int argc, char** argv) {
  blockdelta::test::CommandLine line;
  if (!Parse(argc, argv, &line)) {
    std::fputs(blockdelta::test::kUsage, stderr);
    return 2;
  }
  blockdelta::test::ThinPool pool = MakeThinPool(line.scenario);
  pool.image.Save(line.out);
  std::printf("%s: %llu metadata blocks (%llu used), %llu data blocks, devices 1..%zu\n",
              line.out.c_str(), static_cast<unsigned long long>(pool.image.block_count()),
              static_cast<unsigned long long>(pool.image.used_blocks()),
              static_cast<unsigned long long>(pool.image.data_references().size()),
              pool.devices.size());
}
