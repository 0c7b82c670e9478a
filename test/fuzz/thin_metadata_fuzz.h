// Reads metadata made of a fuzzer's input, by all that reads metadata: superblock, devices, walks
// of mapping trees, and whole calls of the scan.
//
// Whatever a slow model finds sound must be read, with the same result; anything else must be
// refused as THIN_METADATA_INVALID, or was in a part that needed no reading. Nothing may crash, and
// nothing may read more blocks than there can be nodes.
#ifndef BLOCKDELTA_TEST_FUZZ_THIN_METADATA_FUZZ_H_
#define BLOCKDELTA_TEST_FUZZ_THIN_METADATA_FUZZ_H_

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "native/scan/message_writer.h"
#include "native/thin/exclusive_blocks.h"
#include "native/thin/superblock.h"
#include "native/thin/thin_fill.h"
#include "test/fuzz/fuzz_input.h"
#include "test/native/chunks.h"
#include "test/native/thin_image_source.h"
#include "test/native/thin_scenario.h"
#include "test/native/thin_walk.h"

namespace blockdelta::test {

// As the generator makes it: full-sized nodes, snapshots, discards, a held copy.
inline ThinImageSource MakePoolImage() {
  ThinScenario scenario;
  scenario.mapped = 200;
  scenario.density = 0.6;
  scenario.changed = 0.2;
  scenario.discarded = 0.2;
  scenario.added = 0.2;
  scenario.metadata_snapshot = true;
  scenario.changed_after = 5;
  scenario.empty_device = true;
  return ThinImageSource(MakeThinPool(scenario).image);
}

// Nodes of few entries, so that trees of some blocks are high.
inline ThinImageSource MakeHighImage() {
  MappingTrees trees(4);
  PoolPlan plan;
  plan.data_blocks = 200;
  uint64_t root = trees.Empty();
  for (uint32_t device = 0; device < 3; device++) {
    for (uint64_t i = 0; i < (device == 0 ? 24 : 3); i++) {
      const uint64_t key = (i * 7 + device * 5) % 30;
      root = device == 1 && i == 2 ? trees.Remove(root, key)
                                   : trees.Set(root, key, (device * 30 + i) << 24 | device);
    }
    plan.devices.push_back({device + 1, root, device, device});
    trees.Share();
  }
  return ThinImageSource(MakePool(trees, plan).image);
}

// Changes a small sound image.
class ImageChanges {
 public:
  // Changed blocks get their right checksums if `seals`.
  ImageChanges(FuzzInput* input, bool seals) : input_(*input) {
    static const ThinImageSource pool = MakePoolImage();
    static const ThinImageSource high = MakeHighImage();
    const uint64_t head = input_.Byte();
    image_ = (head & 1) != 0 ? high : pool;
    if ((head & 2) != 0) image_.Truncate(1 + input_.Byte() % image_.block_count());
    for (uint64_t left = head >> 2 & 15; left > 0; left--) Change();
    for (const uint64_t number : changed_) {
      if (seals) Seal(number);
    }
  }

  const std::vector<uint8_t>& Bytes() const { return image_.bytes(); }

 private:
  // What a block is, by its place: block 0 and the held copy are superblocks.
  void Seal(uint64_t number) {
    const uint64_t magic = ReadLe64(image_.block(number) + superblock_format::kMagic);
    const bool is_superblock = number == 0 || magic == superblock_format::kMagicNumber;
    image_.node(number)->Seal(is_superblock ? kSuperblockSalt : kNodeSalt);
  }

  void Write(size_t offset, uint64_t value, size_t bytes) {
    std::memcpy(image_.block(at_) + offset % (kMetadataBlockBytes - 8), &value, bytes);
  }

  void Change() {
    constexpr size_t kHeader[] = {4, 8, 16, 20, 24, 0};
    const uint64_t what = input_.Byte();
    at_ = input_.Byte() % image_.block_count();
    changed_.insert(at_);
    const uint64_t room = image_.node(at_)->max_entries;
    switch (what % 6) {
      case 0:
        return Write(kHeader[input_.Byte() % 6], input_.Number(0xE0), 4);
      case 1:  // A key.
        return Write(32 + 8 * input_.Byte(), input_.Number(0xE0), 8);
      case 2:  // A child, or the data block of a mapping.
        return Write(32 + 8 * (room + input_.Byte()), input_.Number(0xE0) << (what & 8 ? 24 : 0),
                     8);
      case 3:
        return Write(input_.Number(0xE0), input_.Byte(), 1);
      case 4: {
        const uint64_t from = input_.Byte() % image_.block_count();
        if (from != at_) {
          std::memcpy(image_.block(at_), image_.block(from), kMetadataBlockBytes);
        }
        return Write(kOwnNumberOffset, at_, 8);
      }
      default:
        changed_.insert(0);
        at_ = 0;
        return Write(32 + 4 * (input_.Byte() % 83), input_.Number(0xE0), (what & 8) != 0 ? 8 : 4);
    }
  }

  FuzzInput& input_;
  ThinImageSource image_{{}};
  std::set<uint64_t> changed_;
  uint64_t at_ = 0;
};

// A slow, plain reader, to hold the fast one against. Shares the checksum and the offsets of the
// format with it, nothing else: every tree is read whole, node by node, into a map.
using ModelValue = std::array<uint8_t, 24>;
using ModelTree = std::map<uint64_t, ModelValue>;

class ThinMetadataModel {
 public:
  explicit ThinMetadataModel(const std::vector<uint8_t>& image) : image_(image) {}

  // All entries of a tree, or nothing if any node of it is not sound.
  std::optional<ModelTree> Tree(uint64_t root, uint64_t key_end, uint32_t value_bytes) const {
    Visit visit = {value_bytes, -1, {}};
    if (!ReadNode(root, 0, key_end, 0, &visit)) return std::nullopt;
    return visit.entries;
  }

  // The devices of both trees, or nothing if these are not sound or do not match.
  std::optional<std::vector<ThinDevice>> Devices(uint64_t mapping_root,
                                                 uint64_t details_root) const {
    const auto roots = Tree(mapping_root, kMaxDeviceId + 1, 8);
    const auto details = Tree(details_root, kMaxDeviceId + 1, details_format::kValueBytes);
    if (!roots.has_value() || !details.has_value() || roots->size() != details->size()) {
      return std::nullopt;
    }
    std::vector<ThinDevice> devices;
    for (const auto& [id, value] : *roots) {
      const auto found = details->find(id);
      const uint64_t root = ReadLe64(value.data());
      if (found == details->end() || root == 0 || root >= blocks()) return std::nullopt;
      const uint8_t* const detail = found->second.data();
      devices.push_back({id, root, ReadLe64(detail), ReadLe64(detail + 8), ReadLe32(detail + 16),
                         ReadLe32(detail + 20)});
    }
    return devices;
  }

  // Of one device.
  std::optional<Mappings> MappingsOf(uint64_t root, uint64_t data_blocks) const {
    const auto tree = Tree(root, UINT64_MAX, 8);
    if (!tree.has_value()) return std::nullopt;
    Mappings mappings;
    for (const auto& [block, value] : *tree) {
      mappings[block] = ReadLe64(value.data());
      if (data_blocks != 0 && mappings[block] >> 24 >= data_blocks) return std::nullopt;
    }
    return mappings;
  }

 private:
  struct Visit {
    uint32_t value_bytes;
    int leaf_depth;  // Of the first leaf; -1: none seen yet.
    ModelTree entries;
  };

  uint64_t blocks() const { return image_.size() / kMetadataBlockBytes; }

  bool ReadNode(uint64_t number, uint64_t low, uint64_t high, int depth, Visit* visit) const {
    if (number == 0 || number >= blocks() || depth >= static_cast<int>(kMaxTreeHeight)) {
      return false;
    }
    const uint8_t* const block = &image_[number * kMetadataBlockBytes];
    const uint32_t flags = ReadLe32(block + 4);
    const uint64_t count = ReadLe32(block + 16);
    const uint64_t room = ReadLe32(block + 20);
    const uint64_t value_bytes = ReadLe32(block + 24);
    const bool is_leaf = flags == 2;
    if (ReadLe32(block) != ChecksumOf(block, kNodeSalt) || ReadLe64(block + 8) != number ||
        (flags != 1 && flags != 2) || value_bytes != (is_leaf ? visit->value_bytes : 8) ||
        32 + room * (8 + value_bytes) > kMetadataBlockBytes || count > room ||
        (count == 0 && !(is_leaf && low == 0))) {
      return false;
    }
    if (is_leaf && visit->leaf_depth == -1) visit->leaf_depth = depth;
    if (is_leaf ? visit->leaf_depth != depth
                : visit->leaf_depth != -1 && visit->leaf_depth <= depth) {
      return false;
    }
    const uint8_t* const values = block + 32 + room * 8;
    for (uint64_t i = 0; i < count; i++) {
      const uint64_t key = ReadLe64(block + 32 + i * 8);
      const uint64_t end = i + 1 < count ? ReadLe64(block + 40 + i * 8) : high;
      if (key < low || key >= end || end > high) return false;
      if (is_leaf) {
        std::copy_n(values + i * value_bytes, value_bytes, visit->entries[key].begin());
      } else if (!ReadNode(ReadLe64(values + i * 8), key, end, depth + 1, visit)) {
        return false;
      }
    }
    return true;
  }

  const std::vector<uint8_t>& image_;
};

inline void CheckRefusal(const Status& status) { Check(status.Is(kThinMetadataInvalid)); }

class ThinMetadataFuzz {
 public:
  ThinMetadataFuzz(FuzzInput* input, bool seals)
      : input_(*input),
        head_(input->Byte()),
        source_(ImageChanges(input, seals).Bytes(), (head_ & 1) != 0 ? 64 : 1),
        model_(source_.bytes()) {
    // Keys of a level do not overlap, so no level can have more nodes than there are blocks.
    source_.AfterRead([this](uint8_t*) {
      Check(source_.reads() <= 1000 * kMaxTreeHeight * source_.block_count() + 1000);
    });
  }

  void Run() {
    for (const uint64_t number : {uint64_t{0}, HeldRoot()}) {
      if (number >= source_.block_count()) continue;
      Result<Superblock> superblock =
          ParseSuperblock(source_.block(number), number, source_.block_count(), source_.path());
      if (superblock.ok()) {
        ReadDevices(*superblock, number);
      } else {
        CheckRefusal(superblock.status());
      }
    }
  }

 private:
  uint64_t HeldRoot() { return ReadLe64(source_.block(0) + superblock_format::kHeldRoot); }

  void ReadDevices(const Superblock& superblock, uint64_t number) {
    const auto expected = model_.Devices(superblock.mapping_root, superblock.details_root);
    Result<ThinDeviceList> list =
        ListThinDevices(&source_, superblock, WantedKeys::All(), SIZE_MAX - 1);
    Check(list.ok() == expected.has_value());
    if (!list.ok()) return CheckRefusal(list.status());
    Check(list->devices.size() == expected->size());
    for (size_t i = 0; i < expected->size(); i++) {
      const ThinDevice& found = list->devices[i];
      const ThinDevice& known = (*expected)[i];
      Check(found.id == known.id && found.root == known.root &&
            found.mapped_blocks == known.mapped_blocks &&
            found.transaction_id == known.transaction_id &&
            found.creation_time == known.creation_time &&
            found.snapshotted_time == known.snapshotted_time);
    }
    if (list->devices.empty()) return;
    if (number == 0) CountExclusive(superblock, list->devices);
    const ThinDevice& target = list->devices[input_.Byte() % list->devices.size()];
    const ThinDevice& base = list->devices[input_.Byte() % list->devices.size()];
    const bool has_base = (head_ & 2) != 0;
    WalkTrees(superblock, target, has_base ? &base : nullptr);
    if (number == 0 && (head_ & 8) != 0) Fill(superblock, target, has_base ? &base : nullptr);
  }

  void CountExclusive(const Superblock& superblock, const std::vector<ThinDevice>& devices) {
    const Result<std::vector<uint64_t>> counts =
        CountExclusiveBlocks(&source_, superblock, devices);
    if (!counts.ok()) return CheckRefusal(counts.status());
    std::vector<Mappings> mappings;
    std::map<uint64_t, unsigned> uses;
    for (const ThinDevice& device : devices) {
      const auto known = model_.MappingsOf(device.root, superblock.data_blocks);
      // A node that is shared is checked against one of its parents only.
      if (!known.has_value()) return;
      mappings.push_back(*known);
      for (const auto& [key, value] : *known) uses[value >> 24]++;
    }
    for (size_t i = 0; i < devices.size(); i++) {
      uint64_t alone = 0;
      for (const auto& [key, value] : mappings[i]) alone += uses[value >> 24] == 1 ? 1 : 0;
      Check((*counts)[i] == alone);
    }
  }

  // What the model reads of the two; nothing where one is not sound. Without a base, that is empty.
  std::optional<std::array<Mappings, 2>> Sides(const Superblock& superblock,
                                               const ThinDevice& target,
                                               const ThinDevice* base) const {
    const auto right = model_.MappingsOf(target.root, superblock.data_blocks);
    std::optional<Mappings> left = Mappings();
    if (base != nullptr) left = model_.MappingsOf(base->root, superblock.data_blocks);
    if (!right.has_value() || !left.has_value()) return std::nullopt;
    return {{*left, *right}};
  }

  void WalkTrees(const Superblock& superblock, const ThinDevice& target, const ThinDevice* base) {
    DeltaSides sides;
    if (base != nullptr) sides.roots.left = base->root;
    sides.roots.right = target.root;
    sides.include_same = (head_ & 4) != 0;
    const uint64_t first = (head_ & 16) != 0 ? input_.Number(0xE0) : 0;
    // Every batch of more than two nodes is packed.
    MappingReader reader(&source_, superblock.data_blocks, {2, 10'000});
    Result<BlockKinds> kinds = WalkAll(&reader, sides, {first, UINT64_MAX});
    if (!kinds.ok()) CheckRefusal(kinds.status());
    const auto known = Sides(superblock, target, base);
    if (!known.has_value()) {
      // Read whole, so that nothing unsound can have been left out.
      Check(!kinds.ok() || first != 0 || (base != nullptr && !sides.include_same));
      return;
    }
    Check(kinds.ok());
    Check(*kinds ==
          ExpectedKinds((*known)[0], (*known)[1], sides.include_same, {first, UINT64_MAX}));
  }

  // The image as a file, for what opens one.
  std::string WriteFile() {
    // Above what the process may inherit, so that the name is as long each time.
    static const int fd = fcntl(memfd_create("metadata", MFD_CLOEXEC), F_DUPFD_CLOEXEC, 100);
    const std::vector<uint8_t>& image = source_.bytes();
    Check(fd >= 0 && ftruncate(fd, static_cast<off_t>(image.size())) == 0);
    Check(pwrite(fd, image.data(), image.size(), 0) == static_cast<ssize_t>(image.size()));
    return "/proc/self/fd/" + std::to_string(fd);
  }

  void Fill(const Superblock& superblock, const ThinDevice& target, const ThinDevice* base) {
    ThinScanRequest request;
    request.metadata = WriteFile();
    request.target = {target.id, std::nullopt};
    if (base != nullptr) request.base = ThinDeviceRef{base->id, std::nullopt};
    const uint64_t block_bytes = superblock.data_block_bytes;
    const uint64_t size = (1 + input_.Byte()) * block_bytes / 4;
    FillLimits limits;
    limits.offset = 0;
    limits.max_entries = 1 + input_.Byte() % 8;
    limits.max_entries_per_message = limits.max_entries;
    limits.max_extents = 1 + input_.Byte();
    limits.send_empty = false;
    const auto fill = [&](const FillLimits& each, Span<uint8_t> buffer) {
      return FillFromThin(request, size, each, buffer, 1);
    };
    Result<Scan> scan =
        RunScan(fill, size, 0, MessageWriter::kMinBufferBytes, [&] { return limits; });
    if (!scan.ok()) return CheckRefusal(scan.status());
    const auto known = Sides(superblock, target, base);
    if (!known.has_value()) return;
    Check(scan->ranges == RangesOf(ExpectedKinds((*known)[0], (*known)[1]), block_bytes, 0, size));
  }

  FuzzInput& input_;
  const uint64_t head_;
  ThinImageSource source_;
  ThinMetadataModel model_;
};

}  // namespace blockdelta::test

#endif  // BLOCKDELTA_TEST_FUZZ_THIN_METADATA_FUZZ_H_
