#include "test/native/thin_scenario.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <unordered_set>
#include <utility>

#include "native/thin/thin_format.h"
#include "test/native/thin_image_space_map.h"
#include "test/native/thin_image_tree.h"

namespace blockdelta::test {
namespace {

constexpr uint64_t kMappingValueBytes = 8;

uint64_t Part(uint64_t whole, double part) {
  return static_cast<uint64_t>(static_cast<double>(whole) * part);
}

uint64_t ChangesOf(const ThinScenario& scenario) {
  return std::max<uint64_t>(1, Part(scenario.mapped, scenario.changed));
}

uint64_t DataBlocksOf(const ThinScenario& scenario) {
  return scenario.mapped +
         (ChangesOf(scenario) + scenario.written_to_snapshots) * scenario.snapshots +
         scenario.changed_after + 64;
}

// More than enough: every change may copy a leaf and what leads to it.
uint64_t MetadataBlocksOf(const ThinScenario& scenario) {
  if (scenario.metadata_blocks != 0) return scenario.metadata_blocks;
  const uint64_t changes = ChangesOf(scenario) + scenario.discarded_leaves;
  const uint64_t leaves = scenario.mapped / 126 + 64;
  const uint64_t copied = std::min(leaves + changes / 100, changes * 3);
  const uint64_t written = std::min(leaves, scenario.written_to_snapshots * 3);
  const uint64_t blocks = leaves * 2 + (copied + written) * 2 * (scenario.snapshots + 1) +
                          scenario.changed_after * 4 + DataBlocksOf(scenario) / 300 * 2 + 4096;
  return std::min(blocks, kMaxMetadataBlocks);
}

class Builder {
 public:
  explicit Builder(const ThinScenario& scenario)
      : scenario_(scenario),
        image_(MetadataBlocksOf(scenario), DataBlocksOf(scenario)),
        random_(scenario.seed) {}

  ThinPool Make() {
    ChooseBlocks();
    MakeOrigin();
    for (uint64_t i = 0; i < scenario_.snapshots; i++) {
      Snapshot();
      // The origin ends equal to the newest snapshot.
      if (i + 1 < scenario_.snapshots) ChangeOrigin(ChangesOf(scenario_));
    }
    if (scenario_.empty_device) {
      devices_.push_back({devices_.size() + 1, image_.NewNode(true, kMappingValueBytes), 0,
                          ++transaction_id_, time_, time_});
    }
    const uint64_t held_root = Finish();
    return {std::move(image_), std::move(devices_), held_root};
  }

 private:
  uint64_t Below(uint64_t end) { return random_() % end; }

  template <typename T>
  void Shuffle(std::vector<T>* values) {
    for (size_t i = values->size(); i > 1; i--) std::swap((*values)[i - 1], (*values)[Below(i)]);
  }

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
    for (uint64_t i = 0; i < data.size(); i++) data[i] = i;
    if (scenario_.shuffled_data) Shuffle(&data);
    next_data_ = data.size();
    std::vector<TreeEntry> entries(data.size());
    for (uint64_t i = 0; i < data.size(); i++) {
      const uint64_t value = data[i] << kMappingTimeBits;
      entries[i] = MakeEntry(blocks_[i], &value, sizeof(value));
      image_.data_references()[data[i]]++;
    }
    if (scenario_.shuffled_nodes) {
      std::vector<uint64_t> numbers(Part(scenario_.mapped / Part(252, scenario_.fill), 1.02) + 8);
      for (uint64_t i = 0; i < numbers.size(); i++) numbers[i] = i + 1;
      Shuffle(&numbers);
      image_.Prefer(std::move(numbers));
    }
    const uint64_t root = BuildTree(&image_, entries, kMappingValueBytes, scenario_.fill);
    devices_.push_back({1, root, data.size(), 0, 0, 0});
  }

  void Snapshot() {
    ThinScenarioDevice& origin = devices_[0];
    image_.references()[origin.root]++;
    origin.snapshotted = ++time_;
    devices_.push_back(
        {devices_.size() + 1, origin.root, origin.mapped, ++transaction_id_, time_, time_});
    ThinScenarioDevice& snapshot = devices_.back();
    for (uint64_t i = 0; i < scenario_.written_to_snapshots; i++) Write(&snapshot, RandomBlock());
  }

  uint64_t RandomBlock() { return blocks_[Below(blocks_.size())]; }

  void Write(ThinScenarioDevice* device, uint64_t block) {
    MappingTree tree(&image_, device->root);
    device->mapped += tree.Set(block, next_data_++ << kMappingTimeBits | time_) ? 1 : 0;
    device->root = tree.root();
  }

  void ChangeOrigin(uint64_t changes) {
    const uint64_t added = Part(changes, scenario_.added);
    const uint64_t discarded = Part(changes, scenario_.discarded);
    const uint64_t written =
        std::min(changes - std::min(changes, added + discarded), scenario_.mapped);
    switch (scenario_.pattern) {
      case ChangePattern::kRandom:
        WriteRandom(written);
        break;
      case ChangePattern::kSequential:
        WriteSequential(written);
        break;
      case ChangePattern::kClustered:
        WriteClustered(written);
        break;
    }
    for (uint64_t i = 0; i < added; i++) Write(&devices_[0], NewBlock());
    Discard(discarded);
  }

  // Each block once.
  void WriteRandom(uint64_t count) {
    if (count > scenario_.mapped / 4) {
      std::vector<uint64_t> order = blocks_;
      for (uint64_t i = 0; i < count; i++) {
        std::swap(order[i], order[i + Below(order.size() - i)]);
        Write(&devices_[0], order[i]);
      }
      return;
    }
    std::unordered_set<uint64_t> seen;
    while (seen.size() < count) {
      const uint64_t block = RandomBlock();
      if (seen.insert(block).second) Write(&devices_[0], block);
    }
  }

  void WriteSequential(uint64_t count) {
    const uint64_t first = Below(blocks_.size());
    for (uint64_t i = 0; i < count; i++) Write(&devices_[0], blocks_[(first + i) % blocks_.size()]);
  }

  void WriteClustered(uint64_t count) {
    const uint64_t size = scenario_.cluster_blocks;
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
    ThinScenarioDevice& origin = devices_[0];
    MappingTree tree(&image_, origin.root);
    for (uint64_t i = 0; i < count; i++) origin.mapped -= tree.Remove(RandomBlock()) ? 1 : 0;
    for (uint64_t i = 0; i < scenario_.discarded_leaves; i++) {
      origin.mapped -= tree.RemoveLeaf(RandomBlock());
    }
    origin.root = tree.root();
  }

  uint64_t BuildMappingTop() {
    std::vector<TreeEntry> entries;
    for (const ThinScenarioDevice& device : devices_) {
      entries.push_back(MakeEntry(device.id, &device.root, sizeof(device.root)));
    }
    return BuildTree(&image_, entries, kMappingValueBytes, 1);
  }

  uint64_t BuildDetails() {
    std::vector<TreeEntry> entries;
    for (const ThinScenarioDevice& device : devices_) {
      uint8_t value[details_format::kValueBytes];
      std::memcpy(value + details_format::kMappedBlocks, &device.mapped, 8);
      std::memcpy(value + details_format::kTransactionId, &device.transaction_id, 8);
      std::memcpy(value + details_format::kCreationTime, &device.created, 4);
      std::memcpy(value + details_format::kSnapshottedTime, &device.snapshotted, 4);
      entries.push_back(MakeEntry(device.id, value, sizeof(value)));
    }
    return BuildTree(&image_, entries, details_format::kValueBytes, 1);
  }

  void Write32(uint64_t number, size_t offset, uint64_t value) {
    std::memcpy(image_.block(number) + offset, &value, 4);
  }
  void Write64(uint64_t number, size_t offset, uint64_t value) {
    std::memcpy(image_.block(number) + offset, &value, 8);
  }

  void WriteSuperblock(uint64_t number, uint64_t mapping_root, uint64_t details_root) {
    using namespace superblock_format;
    Write64(number, kOwnNumberOffset, number);
    Write64(number, kMagic, kMagicNumber);
    Write32(number, kVersion, kVersionNumber);
    Write32(number, kTime, time_);
    Write64(number, kTransactionId, transaction_id_);
    Write64(number, kMappingRoot, mapping_root);
    Write64(number, kDetailsRoot, details_root);
    Write32(number, kDataBlockSectors, scenario_.data_block_sectors);
    Write32(number, kMetadataBlockSectors, 8);
    Write64(number, kMetadataBlocks, image_.block_count());
  }

  // The held copy's trees stay; every device's root is referred to once more.
  uint64_t HoldMetadata() {
    const uint64_t mapping_root = BuildMappingTop();
    const uint64_t details_root = BuildDetails();
    const uint64_t number = image_.Allocate(BlockKind::kSuperblock);
    WriteSuperblock(number, mapping_root, details_root);
    for (const ThinScenarioDevice& device : devices_) image_.references()[device.root]++;
    if (scenario_.changed_after > 0) ChangeOrigin(scenario_.changed_after);
    return number;
  }

  uint64_t Finish() {
    const uint64_t held_root = scenario_.metadata_snapshot ? HoldMetadata() : 0;
    const uint64_t mapping_root = BuildMappingTop();
    WriteSuperblock(0, mapping_root, BuildDetails());
    Write64(0, superblock_format::kHeldRoot, held_root);
    const SpaceMapRoot data = BuildDataSpaceMap(&image_);
    const SpaceMapRoot metadata = BuildMetadataSpaceMap(&image_);
    std::memcpy(image_.block(0) + superblock_format::kDataSpaceMap, &data, sizeof(data));
    std::memcpy(image_.block(0) + superblock_format::kMetadataSpaceMap, &metadata,
                sizeof(metadata));
    image_.SealAll();
    return held_root;
  }

  const ThinScenario& scenario_;
  ThinImage image_;
  std::mt19937_64 random_;
  std::vector<ThinScenarioDevice> devices_;
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
