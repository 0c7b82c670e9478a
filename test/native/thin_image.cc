#include "test/native/thin_image.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "native/base/crc32c.h"

namespace blockdelta::test {
namespace {

constexpr size_t kBlockBytes = 4096;
constexpr uint32_t kSuperblockSalt = 160'774;
constexpr uint32_t kBitmapSalt = 240'779;
constexpr uint32_t kIndexSalt = 160'478;
constexpr uint64_t kCountsPerBitmap = (kBlockBytes - 16) * 4;

struct Entry {
  uint64_t key;
  std::array<uint8_t, 24> value;
};

template <typename Value>
Entry MakeEntry(uint64_t key, const Value& value) {
  Entry entry = {key, {}};
  std::memcpy(entry.value.data(), &value, sizeof value);
  return entry;
}

// What an index says of a bitmap.
struct Bitmap {
  uint64_t block;
  uint32_t free;
  uint32_t none_free_before;
};

class ImageMaker {
 public:
  ImageMaker(const MappingTrees& trees, const PoolPlan& plan) : trees_(trees), plan_(plan) {
    bytes_.reserve(trees.nodes().size() * kBlockBytes);
    Allocate();  // The superblock's.
  }

  ThinPool Pool() {
    numbers_.resize(trees_.nodes().size());
    if (plan_.is_complete) {
      PlaceWhatIsUsed();
    } else {
      for (size_t node = 1; node < numbers_.size(); node++) Place(node);
    }
    for (size_t node = 1; node < numbers_.size(); node++) {
      if (numbers_[node] != 0) WriteNode(node);
    }
    ThinPool pool;
    if (plan_.held.has_value()) {
      std::vector<TreeDevice> held = *plan_.held;
      WriteDeviceTrees(&held);
      pool.held_root = Allocate();
      WriteSuperblock(pool.held_root);
    }
    pool.devices = plan_.devices;
    WriteDeviceTrees(&pool.devices);
    WriteSuperblock(0);
    Put(0, 56, pool.held_root);
    if (plan_.is_complete) {
      WriteSpaceMaps();
    } else {
      Put(0, 64, plan_.data_blocks);
      Put(0, 192, blocks());
    }
    for (const uint64_t number : {pool.held_root, uint64_t{0}}) {
      Put(number, 344, blocks());
      Seal(number, kSuperblockSalt);
    }
    pool.image = std::move(bytes_);
    return pool;
  }

 private:
  uint64_t blocks() const { return references_.size(); }
  uint8_t* block(uint64_t number) { return &bytes_[number * kBlockBytes]; }

  // A block of zeros that is referred to once.
  uint64_t Allocate() {
    bytes_.resize(bytes_.size() + kBlockBytes);
    references_.push_back(1);
    return blocks() - 1;
  }

  template <typename Value>
  void Put(uint64_t number, size_t offset, Value value) {
    std::memcpy(block(number) + offset, &value, sizeof value);
  }
  void Seal(uint64_t number, uint32_t salt) { DiskNode::At(block(number))->Seal(salt); }

  void Place(uint64_t node) {
    numbers_[node] = Allocate();
    references_.back() = 0;
  }

  void PlaceWhatIsUsed() {
    std::vector<bool> seen(numbers_.size());
    std::vector<uint64_t> used;
    const auto visit = [&](uint64_t node) {
      if (!seen[node]) used.push_back(node);
      seen[node] = true;
    };
    for (const TreeDevice& device : plan_.devices) visit(device.root);
    for (const TreeDevice& device : plan_.held.value_or(plan_.devices)) visit(device.root);
    for (size_t i = 0; i < used.size(); i++) {
      const MappingTrees::Node& node = trees_.nodes()[used[i]];
      if (node.is_leaf) continue;
      for (const uint64_t child : node.values) visit(child);
    }
    if (plan_.shuffle != nullptr) std::shuffle(used.begin(), used.end(), *plan_.shuffle);
    for (const uint64_t node : used) Place(node);
  }

  DiskNode* BeginNode(uint64_t number, bool is_leaf, size_t entries, size_t room, size_t bytes) {
    DiskNode* const node = DiskNode::At(block(number));
    *node = {0,
             is_leaf ? 2u : 1u,
             number,
             static_cast<uint32_t>(entries),
             static_cast<uint32_t>(room),
             static_cast<uint32_t>(bytes),
             0};
    return node;
  }

  void WriteNode(uint64_t index) {
    const MappingTrees::Node& from = trees_.nodes()[index];
    DiskNode* const node =
        BeginNode(numbers_[index], from.is_leaf, from.keys.size(), trees_.max_entries(), 8);
    std::copy(from.keys.begin(), from.keys.end(), node->keys());
    for (size_t i = 0; i < from.values.size(); i++) {
      node->words()[i] = from.is_leaf ? from.values[i] : numbers_[from.values[i]];
      if (plan_.is_complete) CountReference(from.is_leaf, node->words()[i]);
    }
    node->Seal();
  }

  void CountReference(bool is_leaf, uint64_t value) {
    if (!is_leaf) {
      references_[value]++;
      return;
    }
    data_references_.resize(plan_.data_blocks);
    data_references_[value >> 24]++;
  }

  // A tree of nodes as full as they can be; its root.
  uint64_t BuildTree(std::vector<Entry> level, size_t value_bytes) {
    for (bool is_leaf = true;; is_leaf = false) {
      const size_t bytes = is_leaf ? value_bytes : 8;
      const size_t room = (kBlockBytes - sizeof(DiskNode)) / (8 + bytes) / 3 * 3;
      const size_t nodes = std::max<size_t>(1, (level.size() + room - 1) / room);
      std::vector<Entry> above;
      for (size_t i = 0, next = 0; i < nodes; i++) {
        const size_t count = (level.size() - next) / (nodes - i);
        const uint64_t number = Allocate();
        DiskNode* const node = BeginNode(number, is_leaf, count, room, bytes);
        auto* const values = reinterpret_cast<uint8_t*>(node->words());
        above.push_back(MakeEntry(count > 0 ? level[next].key : 0, number));
        for (size_t j = 0; j < count; j++, next++) {
          node->keys()[j] = level[next].key;
          std::copy_n(level[next].value.begin(), bytes, values + j * bytes);
        }
        node->Seal();
      }
      level = std::move(above);
      if (nodes == 1) {
        uint64_t root;
        std::memcpy(&root, level[0].value.data(), sizeof root);
        return root;
      }
    }
  }

  // Their roots become blocks.
  void WriteDeviceTrees(std::vector<TreeDevice>* devices) {
    std::vector<Entry> roots;
    std::vector<Entry> details;
    for (TreeDevice& device : *devices) {
      struct {
        uint64_t mapped, transaction_id;
        uint32_t created, snapshotted;
      } detail = {device.mapped = trees_.CountMapped(device.root), device.transaction_id,
                  device.created, device.snapshotted};
      device.root = numbers_[device.root];
      references_[device.root]++;
      roots.push_back(MakeEntry(device.id, device.root));
      details.push_back(MakeEntry(device.id, detail));
    }
    mapping_root_ = BuildTree(std::move(roots), 8);
    details_root_ = BuildTree(std::move(details), 24);
  }

  void WriteSuperblock(uint64_t number) {
    Put(number, 8, number);
    Put(number, 32, uint64_t{27'022'010});
    Put(number, 40, uint32_t{2});
    Put(number, 44, plan_.time);
    Put(number, 48, plan_.transaction_id);
    Put(number, 320, mapping_root_);
    Put(number, 328, details_root_);
    Put(number, 336, plan_.data_block_sectors);
    Put(number, 340, uint32_t{8});
  }

  // Two bits a block, the high one first; 3 means: the count is in the tree of counts.
  Bitmap WriteBitmap(uint64_t number, const std::vector<uint32_t>& counts, uint64_t index) {
    const uint64_t first = index * kCountsPerBitmap;
    const uint64_t count = std::min<uint64_t>(kCountsPerBitmap, counts.size() - first);
    uint8_t* const bits = block(number) + 16;
    Put(number, 8, number);
    Bitmap bitmap = {number, 0, static_cast<uint32_t>(count)};
    for (uint64_t i = 0; i < count; i++) {
      const uint32_t references = std::min(counts[first + i], 3u);
      if (references == 0 && bitmap.free++ == 0) {
        bitmap.none_free_before = static_cast<uint32_t>(i);
      }
      const uint32_t high_first = references >> 1 | (references & 1) << 1;
      bits[i / 4] |= static_cast<uint8_t>(high_first << 2 * (i % 4));
    }
    Seal(number, kBitmapSalt);
    return bitmap;
  }

  uint64_t BuildCounts(const std::vector<uint32_t>& counts) {
    std::vector<Entry> entries;
    for (uint64_t i = 0; i < counts.size(); i++) {
      if (counts[i] > 2) entries.push_back(MakeEntry(i, counts[i]));
    }
    return BuildTree(std::move(entries), sizeof(uint32_t));
  }

  void PutSpaceMap(size_t at, const std::vector<uint32_t>& counts, uint64_t index, uint64_t tree) {
    const auto free = std::count(counts.begin(), counts.end(), 0u);
    Put(0, at, uint64_t{counts.size()});
    Put(0, at + 8, counts.size() - static_cast<uint64_t>(free));
    Put(0, at + 16, index);
    Put(0, at + 24, tree);
  }

  void WriteSpaceMaps() {
    data_references_.resize(plan_.data_blocks);
    std::vector<Entry> data;
    for (uint64_t i = 0; i * kCountsPerBitmap < data_references_.size(); i++) {
      data.push_back(MakeEntry(i, WriteBitmap(Allocate(), data_references_, i)));
    }
    const uint64_t data_index = BuildTree(std::move(data), sizeof(Bitmap));
    PutSpaceMap(64, data_references_, data_index, BuildCounts(data_references_));
    // Of all blocks with its own, which are counted once each: the tree of counts can come first.
    const uint64_t counts = BuildCounts(references_);
    const uint64_t index = Allocate();
    std::vector<uint64_t> bitmaps(blocks() / (kCountsPerBitmap - 1) + 1);
    for (uint64_t& bitmap : bitmaps) bitmap = Allocate();
    // Some are free, as long as the last bitmap has room.
    bytes_.resize(std::min(blocks() + 16, bitmaps.size() * kCountsPerBitmap) * kBlockBytes);
    references_.resize(bytes_.size() / kBlockBytes);
    Put(index, 8, index);
    for (uint64_t i = 0; i < bitmaps.size(); i++) {
      Put(index, 16 + 16 * i, WriteBitmap(bitmaps[i], references_, i));
    }
    Seal(index, kIndexSalt);
    PutSpaceMap(192, references_, index, counts);
  }

  const MappingTrees& trees_;
  const PoolPlan& plan_;
  std::vector<uint8_t> bytes_;
  std::vector<uint32_t> references_;       // To each block.
  std::vector<uint32_t> data_references_;  // To each data block.
  std::vector<uint64_t> numbers_;          // Of the nodes' blocks; 0: not in the image.
  uint64_t mapping_root_ = 0;
  uint64_t details_root_ = 0;
};

}  // namespace

void DiskNode::Seal(uint32_t salt) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(this);
  checksum = Crc32c(UINT32_MAX, bytes + 4, kBlockBytes - 4) ^ salt;
}

ThinPool MakePool(const MappingTrees& trees, const PoolPlan& plan) {
  return ImageMaker(trees, plan).Pool();
}

}  // namespace blockdelta::test
