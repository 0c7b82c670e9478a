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
#include "native/thin/block_source.h"
#include "native/thin/delta_walk.h"
#include "native/thin/metadata_block.h"
#include "native/thin/superblock.h"
#include "native/thin/thin_fill.h"
#include "test/fuzz/fuzz_input.h"
#include "test/fuzz/fuzz_scan.h"
#include "test/native/thin_image.h"
#include "test/native/thin_scenario.h"
#include "test/native/wire.h"

namespace blockdelta::test {

// A small sound image, and changes to it.
using ThinImageBytes = std::vector<uint8_t>;

// As the generator makes it: full-sized nodes, snapshots, discards, a held copy.
inline ThinImageBytes MakePoolImage() {
  ThinScenario scenario;
  scenario.mapped = 200;
  scenario.density = 0.6;
  scenario.changed = 0.2;
  scenario.discarded = 0.2;
  scenario.added = 0.2;
  scenario.metadata_snapshot = true;
  scenario.changed_after = 5;
  scenario.empty_device = true;
  return MakeThinPool(scenario).image;
}

// Nodes of few entries, so that trees of some blocks are high.
inline ThinImageBytes MakeHighImage() {
  MappingTrees trees(4);
  PoolPlan plan;
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
  return MakePool(trees, plan).image;
}

// What a block of it is, by its place: block 0 and the held copy are superblocks.
inline void SealBlock(ThinImageBytes* image, uint64_t number) {
  uint8_t* const block = &(*image)[number * kMetadataBlockBytes];
  const bool is_superblock =
      ReadLe64(block + superblock_format::kMagic) == superblock_format::kMagicNumber;
  DiskNode::At(block)->Seal(is_superblock || number == 0 ? kSuperblockSalt : kNodeSalt);
}

inline const ThinImageBytes& SoundImage(bool is_high) {
  static const ThinImageBytes pool = MakePoolImage();
  static const ThinImageBytes high = MakeHighImage();
  return is_high ? high : pool;
}

class ImageChanges {
 public:
  // Changed blocks get their right checksums if `seals`.
  ImageChanges(FuzzInput* input, bool seals) : input_(*input), seals_(seals) {
    const uint64_t head = input_.Byte();
    image_ = SoundImage((head & 1) != 0);
    if ((head & 2) != 0) image_.resize((1 + input_.Byte() % blocks()) * kMetadataBlockBytes);
    for (uint64_t left = head >> 2 & 15; left > 0; left--) Change();
    for (const uint64_t number : changed_) {
      if (seals_) SealBlock(&image_, number);
    }
  }

  const ThinImageBytes& image() const { return image_; }

 private:
  uint64_t blocks() const { return image_.size() / kMetadataBlockBytes; }
  uint8_t* block(uint64_t number) { return &image_[number * kMetadataBlockBytes]; }

  void Write(size_t offset, uint64_t value, size_t bytes) {
    std::memcpy(block(at_) + offset % (kMetadataBlockBytes - 8), &value, bytes);
  }

  void Change() {
    constexpr size_t kHeader[] = {4, 8, 16, 20, 24, 0};
    const uint64_t what = input_.Byte();
    at_ = input_.Byte() % blocks();
    changed_.insert(at_);
    const uint64_t room = ReadLe32(block(at_) + node_format::kMaxEntries);
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
        const uint64_t from = input_.Byte() % blocks();
        if (from != at_) std::memcpy(block(at_), block(from), kMetadataBlockBytes);
        return Write(kOwnNumberOffset, at_, 8);
      }
      default:
        changed_.insert(0);
        at_ = 0;
        return Write(32 + 4 * (input_.Byte() % 83), input_.Number(0xE0), (what & 8) != 0 ? 8 : 4);
    }
  }

  FuzzInput& input_;
  const bool seals_;
  ThinImageBytes image_;
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

  // Virtual block to data block of one device.
  std::optional<std::map<uint64_t, uint64_t>> Mappings(uint64_t root, uint64_t data_blocks) const {
    const auto tree = Tree(root, UINT64_MAX, 8);
    if (!tree.has_value()) return std::nullopt;
    std::map<uint64_t, uint64_t> mappings;
    for (const auto& [block, value] : *tree) {
      mappings[block] = ReadLe64(value.data()) >> 24;
      if (data_blocks != 0 && mappings[block] >= data_blocks) return std::nullopt;
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

class FuzzedSource final : public BlockSource {
 public:
  FuzzedSource(const ThinImageBytes& image, size_t batch) : image_(image), batch_(batch) {}

  const std::string& path() const override { return path_; }
  uint64_t block_count() const override { return image_.size() / kMetadataBlockBytes; }
  size_t batch_blocks() const override { return batch_; }
  Status Read(Span<const uint64_t> numbers, uint8_t* out) override {
    reads_ += numbers.size();
    // Keys of a level do not overlap, so no level can have more nodes than there are blocks.
    Check(reads_ <= 1000 * kMaxTreeHeight * block_count() + 1000);
    for (size_t i = 0; i < numbers.size(); i++) {
      if (numbers[i] >= block_count()) return InvalidBlock(path_, numbers[i], "is not there");
      std::memcpy(out + i * kMetadataBlockBytes, &image_[numbers[i] * kMetadataBlockBytes],
                  kMetadataBlockBytes);
    }
    return Status();
  }

 private:
  const std::string path_ = "image";
  const ThinImageBytes& image_;
  const size_t batch_;
  uint64_t reads_ = 0;
};

using BlockKinds = std::map<uint64_t, DeltaKind>;
using ModelMappings = std::map<uint64_t, uint64_t>;

inline BlockKinds ExpectedKinds(const ModelMappings* left, const ModelMappings& right,
                                uint64_t first, bool include_same) {
  BlockKinds kinds;
  for (auto at = right.lower_bound(first); at != right.end(); ++at) {
    if (left == nullptr || left->count(at->first) == 0) {
      kinds[at->first] = DeltaKind::kRightOnly;
    } else if (left->at(at->first) != at->second) {
      kinds[at->first] = DeltaKind::kDifferent;
    } else if (include_same) {
      kinds[at->first] = DeltaKind::kSame;
    }
  }
  if (left == nullptr) return kinds;
  for (auto at = left->lower_bound(first); at != left->end(); ++at) {
    if (right.count(at->first) == 0) kinds[at->first] = DeltaKind::kLeftOnly;
  }
  return kinds;
}

inline Result<BlockKinds> Walk(DeltaWalk* walk, uint64_t first) {
  BlockKinds kinds;
  Status status = walk->Seek({first, UINT64_MAX});
  if (!status.ok()) return status;
  uint64_t examined = first;
  for (unsigned steps = 0; !walk->done(); steps++) {
    Check(steps < 100'000);
    Result<Span<const DeltaRun>> runs = walk->Read();
    if (!runs.ok()) return runs.TakeStatus();
    for (const DeltaRun& run : *runs) {
      Check(run.begin >= examined && run.length > 0 && run.end() <= walk->examined());
      for (uint64_t i = run.begin; i < run.end(); i++) Check(kinds.emplace(i, run.kind).second);
    }
    examined = walk->examined();
  }
  return kinds;
}

class ThinMetadataFuzz {
 public:
  ThinMetadataFuzz(FuzzInput* input, bool seals)
      : input_(*input),
        head_(input->Byte()),
        changes_(input, seals),
        source_(changes_.image(), (head_ & 1) != 0 ? 64 : 1),
        model_(changes_.image()) {}

  void Run() {
    for (const uint64_t number : {uint64_t{0}, HeldRoot()}) {
      if (number >= source_.block_count()) continue;
      Result<Superblock> superblock =
          ParseSuperblock(&changes_.image()[number * kMetadataBlockBytes], number,
                          source_.block_count(), source_.path());
      if (superblock.ok()) {
        ReadDevices(*superblock, number);
      } else {
        CheckRefusal(superblock.status());
      }
    }
  }

 private:
  uint64_t HeldRoot() const {
    return ReadLe64(changes_.image().data() + superblock_format::kHeldRoot);
  }

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
    const ThinDevice& target = list->devices[input_.Byte() % list->devices.size()];
    const ThinDevice& base = list->devices[input_.Byte() % list->devices.size()];
    const bool has_base = (head_ & 2) != 0;
    WalkTrees(superblock, target, has_base ? &base : nullptr);
    if (number == 0 && (head_ & 8) != 0) Fill(superblock, target, has_base ? &base : nullptr);
  }

  void WalkTrees(const Superblock& superblock, const ThinDevice& target, const ThinDevice* base) {
    const bool include_same = (head_ & 4) != 0;
    const uint64_t first = (head_ & 16) != 0 ? input_.Number(0xE0) : 0;
    MappingReader reader(&source_, superblock.data_blocks);
    DeltaSides sides;
    if (base != nullptr) sides.roots.left = base->root;
    sides.roots.right = target.root;
    sides.include_same = include_same;
    DeltaWalk walk(&reader, sides);
    Result<BlockKinds> kinds = Walk(&walk, first);
    const auto right = model_.Mappings(target.root, superblock.data_blocks);
    const auto left =
        model_.Mappings(base != nullptr ? base->root : target.root, superblock.data_blocks);
    if (!kinds.ok()) CheckRefusal(kinds.status());
    if (!right.has_value() || !left.has_value()) {
      // Read whole, so that nothing unsound can have been left out.
      Check(!kinds.ok() || first != 0 || (base != nullptr && !include_same));
      return;
    }
    Check(kinds.ok());
    Check(*kinds == ExpectedKinds(base != nullptr ? &*left : nullptr, *right, first, include_same));
  }

  // The image as a file, for what opens one.
  std::string WriteFile() {
    // Above what the process may inherit, so that the name is as long each time.
    static const int fd = fcntl(memfd_create("metadata", MFD_CLOEXEC), F_DUPFD_CLOEXEC, 100);
    const ThinImageBytes& image = changes_.image();
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
    const auto ranges = ScanInCalls(
        [&](const FillLimits& each, Span<uint8_t> buffer) {
          return FillFromThin(request, size, each, buffer, 1);
        },
        size, limits, MessageWriter::kMinBufferBytes);
    if (!ranges.ok()) return CheckRefusal(ranges.status());
    CheckRanges(superblock, target, base, size, *ranges);
  }

  void CheckRanges(const Superblock& superblock, const ThinDevice& target, const ThinDevice* base,
                   uint64_t size, const std::vector<Range>& ranges) const {
    const auto right = model_.Mappings(target.root, superblock.data_blocks);
    const auto left =
        model_.Mappings(base != nullptr ? base->root : target.root, superblock.data_blocks);
    if (!right.has_value() || !left.has_value()) return;
    std::vector<Range> expected;
    const uint64_t block_bytes = superblock.data_block_bytes;
    for (const auto& [block, kind] :
         ExpectedKinds(base != nullptr ? &*left : nullptr, *right, 0, false)) {
      if (block >= (size + block_bytes - 1) / block_bytes) break;
      const uint64_t begin = block * block_bytes;
      AddRange(&expected, begin, std::min(block_bytes, size - begin));
    }
    Check(ranges == expected);
  }

  FuzzInput& input_;
  const uint64_t head_;
  ImageChanges changes_;
  FuzzedSource source_;
  ThinMetadataModel model_;
};

}  // namespace blockdelta::test

#endif  // BLOCKDELTA_TEST_FUZZ_THIN_METADATA_FUZZ_H_
