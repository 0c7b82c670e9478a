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
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "native/scan/message_writer.h"
#include "native/thin/delta_walk.h"
#include "native/thin/superblock.h"
#include "native/thin/thin_fill.h"
#include "test/fuzz/thin_metadata_image.h"
#include "test/fuzz/thin_metadata_model.h"
#include "test/native/wire.h"

namespace blockdelta::test {

inline void Check(bool condition) {
  if (!condition) std::abort();
}

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
    const uint64_t first = (head_ & 16) != 0 ? input_.Number() : 0;
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
    limits.offset = limits.range_start = 0;
    limits.max_entries = 1 + input_.Byte() % 8;
    limits.max_entries_per_message = limits.max_entries;
    limits.max_extents = 1 + input_.Byte();
    limits.send_empty = false;
    std::vector<uint8_t> buffer(MessageWriter::kMinBufferBytes);
    std::vector<Range> ranges;
    for (bool done = false; !done;) {
      Result<FillOutcome> outcome =
          FillFromThin(request, size, limits, Span<uint8_t>(buffer.data(), buffer.size()), 1);
      if (!outcome.ok()) {
        CheckRefusal(outcome.status());
        break;
      }
      const auto messages = WireReader(buffer.data(), outcome->bytes).Messages();
      Check(messages.has_value());
      for (const Message& message : *messages) {
        ranges.insert(ranges.end(), message.ranges.begin(), message.ranges.end());
      }
      done = outcome->done;
      Check(done || outcome->next_offset > limits.offset || outcome->entries > 0);
      limits.offset = outcome->next_offset;
      limits.range_start = outcome->next_range_start;
      if (done) CheckRanges(superblock, target, base, size, ranges);
    }
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
      const uint64_t length = std::min(block_bytes, size - begin);
      if (!expected.empty() && expected.back().offset + expected.back().size == begin) {
        expected.back().size += length;
      } else {
        expected.push_back({begin, length});
      }
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
