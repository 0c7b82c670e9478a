#include "test/native/thin_scenario.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <unordered_set>
#include <utility>

namespace blockdelta::test {
namespace {

uint64_t Part(uint64_t whole, double part) {
  return static_cast<uint64_t>(static_cast<double>(whole) * part);
}

class Builder {
 public:
  explicit Builder(const ThinScenario& scenario)
      : scenario_(scenario),
        changes_(std::max<uint64_t>(1, Part(scenario.mapped, scenario.changed))),
        random_(scenario.seed) {}

  ThinPool Make() {
    ChooseBlocks();
    MakeOrigin();
    for (uint64_t i = 0; i < scenario_.snapshots; i++) {
      Snapshot();
      // The origin ends equal to the newest snapshot.
      if (i + 1 < scenario_.snapshots) ChangeOrigin(changes_);
    }
    if (scenario_.empty_device) {
      devices_.push_back({devices_.size() + 1, trees_.Empty(), time_, time_, ++transaction_id_});
    }
    PoolPlan plan;
    if (scenario_.metadata_snapshot) {
      plan.held = devices_;
      trees_.Share();
      if (scenario_.changed_after > 0) ChangeOrigin(scenario_.changed_after);
    }
    plan.devices = devices_;
    plan.time = time_;
    plan.transaction_id = transaction_id_;
    plan.data_block_sectors = static_cast<uint32_t>(scenario_.data_block_sectors);
    plan.data_blocks = next_data_ + 64;
    plan.is_complete = true;
    if (scenario_.shuffled_nodes) plan.shuffle = &random_;
    return MakePool(trees_, plan);
  }

 private:
  uint64_t Below(uint64_t end) { return random_() % end; }

  // Runs of mapped blocks with holes between them.
  void ChooseBlocks() {
    blocks_.reserve(scenario_.mapped);
    uint64_t next = 0;
    const double holes = 65 * (1 - scenario_.density) / scenario_.density;
    while (blocks_.size() < scenario_.mapped) {
      const uint64_t run = scenario_.density >= 1 ? scenario_.mapped : 1 + Below(64);
      for (uint64_t i = 0; i < run && blocks_.size() < scenario_.mapped; i++)
        blocks_.push_back(next++);
      next += 1 + Below(static_cast<uint64_t>(holes) + 1);
    }
    end_ = blocks_.back() + 1;
  }

  void MakeOrigin() {
    std::vector<uint64_t> data(blocks_.size());
    std::iota(data.begin(), data.end(), uint64_t{0});
    if (scenario_.shuffled_data) std::shuffle(data.begin(), data.end(), random_);
    next_data_ = data.size();
    std::vector<std::pair<uint64_t, uint64_t>> entries;
    for (size_t i = 0; i < data.size(); i++) entries.push_back({blocks_[i], data[i] << 24});
    devices_.push_back({1, trees_.Build(std::move(entries), scenario_.fill), 0});
  }

  void Snapshot() {
    trees_.Share();
    TreeDevice snapshot = devices_[0];
    devices_[0].snapshotted = ++time_;
    snapshot.id = devices_.size() + 1;
    snapshot.transaction_id = ++transaction_id_;
    snapshot.created = snapshot.snapshotted = time_;
    for (uint64_t i = 0; i < scenario_.written_to_snapshots; i++) Write(&snapshot, RandomBlock());
    devices_.push_back(snapshot);
  }

  uint64_t RandomBlock() { return blocks_[Below(blocks_.size())]; }

  void Write(TreeDevice* device, uint64_t block) {
    device->root = trees_.Set(device->root, block, next_data_++ << 24 | time_);
  }

  void ChangeOrigin(uint64_t changes) {
    const uint64_t added = Part(changes, scenario_.added);
    const uint64_t discarded = Part(changes, scenario_.discarded);
    const uint64_t written =
        std::min(changes - std::min(changes, added + discarded), scenario_.mapped);
    if (scenario_.pattern == ChangePattern::kSequential) {
      WriteSequential(written);
    } else {
      const bool is_random = scenario_.pattern == ChangePattern::kRandom;
      WriteClusters(written, is_random ? 1 : scenario_.cluster_blocks);
    }
    for (uint64_t i = 0; i < added; i++) Write(&devices_[0], NewBlock());
    Discard(discarded);
  }

  void WriteSequential(uint64_t count) {
    const uint64_t first = Below(blocks_.size());
    for (uint64_t i = 0; i < count; i++) Write(&devices_[0], blocks_[(first + i) % blocks_.size()]);
  }

  // Each cluster once.
  void WriteClusters(uint64_t count, uint64_t size) {
    const uint64_t clusters = std::max<uint64_t>(1, blocks_.size() / size);
    std::unordered_set<uint64_t> seen;
    while (count > 0 && seen.size() < clusters) {
      const uint64_t cluster = Below(clusters);
      if (!seen.insert(cluster).second) continue;
      const uint64_t begin = cluster * size;
      const uint64_t end = std::min<uint64_t>(begin + std::min(size, count), blocks_.size());
      for (uint64_t i = begin; i < end; i++) Write(&devices_[0], blocks_[i]);
      count -= end - begin;
    }
  }

  // Into holes as well as past the end.
  uint64_t NewBlock() {
    if (scenario_.density >= 1 || random_() % 2 == 0) return end_++;
    while (hole_ + 1 < blocks_.size() && blocks_[hole_] + 1 == blocks_[hole_ + 1]) hole_++;
    if (hole_ + 1 >= blocks_.size()) return end_++;
    const uint64_t block = blocks_[hole_] + 1;
    hole_ += 1 + Below(200);
    return block;
  }

  void Discard(uint64_t count) {
    uint64_t* const root = &devices_[0].root;
    for (uint64_t i = 0; i < count; i++) *root = trees_.Discard(*root, RandomBlock());
    for (uint64_t i = 0; i < scenario_.discarded_leaves; i++) {
      *root = trees_.DiscardLeaf(*root, RandomBlock());
    }
  }

  const ThinScenario& scenario_;
  const uint64_t changes_;  // Between two snapshots.
  std::mt19937_64 random_;
  MappingTrees trees_{252};
  std::vector<TreeDevice> devices_;
  std::vector<uint64_t> blocks_;  // Mapped in the origin at first.
  uint64_t end_ = 0;              // Above all of them.
  uint64_t hole_ = 0;             // Index in blocks_ at which the search for holes continues.
  uint64_t next_data_ = 0;
  uint64_t transaction_id_ = 1;
  uint32_t time_ = 0;
};

}  // namespace

ThinPool MakeThinPool(const ThinScenario& scenario) { return Builder(scenario).Make(); }

}  // namespace blockdelta::test
