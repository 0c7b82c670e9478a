// Writes a file of thin metadata: `make-thin-metadata -o FILE [options]`, listed when run without
// any.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <variant>

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

// True without a value, otherwise for one of these words.
struct Flag {
  bool* to;
  const char* yes = nullptr;
};

using Option = std::variant<std::string*, uint64_t*, double*, ChangePattern*, Flag>;

bool Take(const Option& option, const std::string& text) {
  char* end = nullptr;
  const char* const begin = text.c_str();
  if (auto* const flag = std::get_if<Flag>(&option)) {
    *flag->to = flag->yes == nullptr || text == flag->yes;
    return true;
  }
  if (auto* const pattern = std::get_if<ChangePattern*>(&option)) {
    static const std::map<std::string, ChangePattern> patterns = {
        {"random", ChangePattern::kRandom},
        {"sequential", ChangePattern::kSequential},
        {"clustered", ChangePattern::kClustered}};
    const auto found = patterns.find(text);
    if (found != patterns.end()) **pattern = found->second;
    return found != patterns.end();
  }
  if (auto* const path = std::get_if<std::string*>(&option)) **path = text;
  if (auto* const number = std::get_if<uint64_t*>(&option))
    **number = std::strtoull(begin, &end, 0);
  if (auto* const part = std::get_if<double*>(&option)) **part = std::strtod(begin, &end);
  return !text.empty() && (end == nullptr || *end == '\0');
}

bool Parse(int argc, char** argv, std::string* out, ThinScenario* scenario) {
  const std::map<std::string, Option> options = {
      {"-o", out},
      {"--mapped", &scenario->mapped},
      {"--snaps", &scenario->snapshots},
      {"--changed", &scenario->changed},
      {"--pattern", &scenario->pattern},
      {"--cluster", &scenario->cluster_blocks},
      {"--new", &scenario->added},
      {"--discard", &scenario->discarded},
      {"--discard-leaves", &scenario->discarded_leaves},
      {"--write-snapshots", &scenario->written_to_snapshots},
      {"--empty-device", Flag{&scenario->empty_device}},
      {"--density", &scenario->density},
      {"--fill", &scenario->fill},
      {"--layout", Flag{&scenario->shuffled_nodes, "shuffled"}},
      {"--data-order", Flag{&scenario->shuffled_data, "random"}},
      {"--metadata-snap", Flag{&scenario->metadata_snapshot}},
      {"--after", &scenario->changed_after},
      {"--data-block-sectors", &scenario->data_block_sectors},
      {"--seed", &scenario->seed}};
  for (int i = 1; i < argc; i++) {
    const auto option = options.find(argv[i]);
    if (option == options.end()) return false;
    const auto* const flag = std::get_if<Flag>(&option->second);
    const bool has_value = flag == nullptr || flag->yes != nullptr;
    if (has_value && ++i == argc) return false;
    if (!Take(option->second, has_value ? argv[i] : "")) return false;
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
