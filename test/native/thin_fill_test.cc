// Fills from thin metadata in files, call by call, against plain maps of what the trees hold.
#include "native/thin/thin_fill.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>

#include "native/thin/create_bookmark.h"
#include "native/thin/thin_format.h"
#include "test/native/chunks.h"
#include "test/native/pool.h"
#include "test/native/random_seed.h"
#include "test/native/status_assertions.h"
#include "test/native/tree_family.h"

namespace blockdelta {
namespace {

using test::Family;
using test::Mappings;
using test::Range;

constexpr uint64_t kBlock = 65536;
constexpr uint64_t kMany = 1 << 20;

// What to report of blocks that differ: sorted, joined, clipped to [offset, size).
std::vector<Range> ToRanges(const std::set<uint64_t>& blocks, uint64_t offset, uint64_t size) {
  std::vector<Range> ranges;
  for (const uint64_t block : blocks) {
    const uint64_t begin = std::max(block * kBlock, offset);
    const uint64_t end = std::min((block + 1) * kBlock, size);
    if (begin >= end) continue;
    if (!ranges.empty() && ranges.back().offset + ranges.back().size == begin) {
      ranges.back().size += end - begin;
    } else {
      ranges.push_back({begin, end - begin});
    }
  }
  return ranges;
}

std::set<uint64_t> Changed(const Mappings* base, const Mappings& target) {
  std::set<uint64_t> blocks;
  for (const auto& [block, value] : target) {
    const auto other = base == nullptr ? target.end() : base->find(block);
    const bool was_mapped = base != nullptr && other != base->end();
    if (!was_mapped || other->second >> 24 != value >> 24) blocks.insert(block);
  }
  if (base == nullptr) return blocks;
  for (const auto& [block, value] : *base) {
    if (target.count(block) == 0) blocks.insert(block);
  }
  return blocks;
}

std::string Text(const std::vector<Range>& ranges) {
  std::string text;
  for (const Range& range : ranges) {
    text += std::to_string(range.offset) + "+" + std::to_string(range.size) + " ";
  }
  return text;
}

struct PoolFile {
  PoolFile(const test::TempDirectory& directory, const Family& family)
      : path(directory.At("metadata")) {
    std::vector<test::TreeDevice> devices;
    for (size_t i = 0; i < family.roots.size(); i++) {
      devices.push_back({i + 1, family.roots[i], static_cast<uint32_t>(i) + 1});
    }
    image = family.trees.PoolImage(devices);
    test::WriteBytes(path, 0, image);
  }

  ThinScanRequest Request(std::optional<uint64_t> base, uint64_t target) const {
    ThinScanRequest request;
    request.metadata = path;
    request.target = {target, std::nullopt};
    if (base.has_value()) request.base = ThinDeviceRef{*base, std::nullopt};
    return request;
  }

  std::string path;
  std::vector<uint8_t> image;
};

test::Call CallOn(const ThinScanRequest& request, uint64_t size, uint64_t max_nodes) {
  return [=](const FillLimits& limits, Span<uint8_t> buffer) {
    return FillFromThin(request, size, limits, buffer, max_nodes);
  };
}

FillLimits Unlimited() { return {0, 0, kMany, kMany, kMany, false}; }

// Whole calls and little ones, from the beginning and from the middle, are to say the same.
void ExpectScan(const ThinScanRequest& request, const std::set<uint64_t>& blocks, uint64_t size,
                std::mt19937_64* random) {
  for (const uint64_t offset : {uint64_t{0}, (*random)() % (size + 1)}) {
    const std::string expected = Text(ToRanges(blocks, offset, size));
    const test::Scan whole =
        test::RunScan(CallOn(request, size, kMaxNodesPerFill), size, offset, 1 << 20, Unlimited);
    EXPECT_TRUE(whole.complete);
    EXPECT_EQ(Text(whole.ranges), expected);
    const test::Scan pieces =
        test::RunScan(CallOn(request, size, 1 + (*random)() % 8), size, offset, 4096, [&] {
          return FillLimits{
              0, 0, 1 + (*random)() % 40, 1 + (*random)() % 10, 1 + (*random)() % 50, false};
        });
    EXPECT_TRUE(pieces.complete);
    EXPECT_EQ(Text(pieces.ranges), expected);
  }
}

TEST(ThinFillTest, FillsFromTheMapsOfThinDevicesWhateverTheCalls) {
  std::mt19937_64 random(test::Seed());
  const test::TempDirectory directory;
  for (int round = 0; round < (test::IsNightly() ? 500 : 40); round++) {
    const Family family = test::RandomFamily(&random);
    const PoolFile file(directory, family);
    const uint64_t base = random() % family.roots.size();
    const uint64_t target = random() % family.roots.size();
    const Mappings base_map = family.trees.Content(family.roots[base]);
    const Mappings target_map = family.trees.Content(family.roots[target]);
    const uint64_t size = 1 + random() % (3000 * kBlock);
    ExpectScan(file.Request(std::nullopt, target + 1), Changed(nullptr, target_map), size, &random);
    ExpectScan(file.Request(base + 1, target + 1), Changed(&base_map, target_map), size, &random);
  }
}

Result<WrittenBookmark> Keep(const PoolFile& file, const test::TempDirectory& directory,
                             uint64_t id, uint64_t size) {
  BookmarkRequest request;
  request.metadata = file.path;
  request.superblock = 0;
  request.device = {id, std::nullopt};
  request.size_bytes = size;
  request.temporary_path = directory.At("kept.tmp");
  request.path = directory.At("kept");
  return CreateBookmark(request);
}

TEST(ThinFillTest, GivesTheSameDeltaAgainstABookmarkAsAgainstItsSnapshot) {
  std::mt19937_64 random(test::Seed());
  for (int round = 0; round < (test::IsNightly() ? 500 : 60); round++) {
    const test::TempDirectory directory;
    const Family family = test::RandomFamily(&random);
    const PoolFile file(directory, family);
    const uint64_t base = random() % (family.roots.size() - 1);
    const uint64_t target = base + 1 + random() % (family.roots.size() - 1 - base);
    const Mappings base_map = family.trees.Content(family.roots[base]);
    const Mappings target_map = family.trees.Content(family.roots[target]);
    const uint64_t size = 1 + random() % (3000 * kBlock);
    Result<WrittenBookmark> kept = Keep(file, directory, base + 1, size);
    ASSERT_OK(kept);
    EXPECT_EQ(kept->info.creation_time, base + 1);
    const auto beyond = base_map.lower_bound((size + kBlock - 1) / kBlock);
    EXPECT_EQ(kept->info.mapped_blocks,
              static_cast<uint64_t>(std::distance(base_map.begin(), beyond)));
    EXPECT_FALSE(test::Exists(directory.At("kept.tmp")));
    ThinScanRequest request = file.Request(std::nullopt, target + 1);
    request.bookmark_path = directory.At("kept");
    ExpectScan(request, Changed(&base_map, target_map), size, &random);
  }
}

TEST(ThinFillTest, BookmarksABaseOfManyLittleRangesAsABitmap) {
  std::mt19937_64 random(test::Seed());
  const test::TempDirectory directory;
  Family family = {test::MappingTrees(252), {}};
  uint64_t root = family.trees.Empty();
  // More than a page of bits, which has 32,640.
  for (uint64_t block = 0; block < 40'000; block += 1 + random() % 3) {
    root = family.trees.Set(root, block, block << 24);
  }
  family.roots.push_back(root);
  family.trees.Share();
  for (uint64_t i = 0; i < 3000; i++) {
    const uint64_t block = random() % 45'000;
    root = random() % 2 == 0 ? family.trees.Set(root, block, (50'000 + i) << 24 | 1)
                             : family.trees.Remove(root, block);
  }
  family.roots.push_back(root);
  const PoolFile file(directory, family);
  const uint64_t size = 41'000 * kBlock - 1;
  Result<WrittenBookmark> kept = Keep(file, directory, 1, size);
  ASSERT_OK(kept);
  EXPECT_EQ(kept->info.form, BookmarkForm::kBitmap);
  EXPECT_EQ(kept->file_bytes, uint64_t{3} * 4096);
  const Mappings base_map = family.trees.Content(family.roots[0]);
  const Mappings target_map = family.trees.Content(family.roots[1]);
  ThinScanRequest request = file.Request(std::nullopt, 2);
  request.bookmark_path = directory.At("kept");
  const std::string expected = Text(ToRanges(Changed(&base_map, target_map), 0, size));
  const test::Scan scan = test::RunScan(CallOn(request, size, 40), size, 0, 1 << 20, Unlimited);
  EXPECT_TRUE(scan.complete && scan.calls > 1);
  EXPECT_EQ(Text(scan.ranges), expected);
}

Family TwoSnapshots() {
  Family family = {test::MappingTrees(4), {}};
  uint64_t root = family.trees.Empty();
  for (uint64_t block = 0; block < 20; block++) root = family.trees.Set(root, block, block << 24);
  family.roots.push_back(root);
  family.trees.Share();
  family.roots.push_back(family.trees.Set(root, 7, uint64_t{99} << 24 | 1));
  return family;
}

TEST(ThinFillTest, RefusesToBookmarkASnapshotThatWasWrittenTo) {
  const test::TempDirectory directory;
  Family family = TwoSnapshots();
  // A mapping as young as the snapshot, which was made at time 2.
  family.roots[1] = family.trees.Set(family.roots[1], 3, uint64_t{100} << 24 | 2);
  const PoolFile file(directory, family);
  EXPECT_CODE(Keep(file, directory, 2, 100 * kBlock), "EINVAL");
  EXPECT_TRUE(!test::Exists(directory.At("kept")) && !test::Exists(directory.At("kept.tmp")));
}

TEST(ThinFillTest, ReportsAnExistingBookmarkAndRefusesADamagedOne) {
  const test::TempDirectory directory;
  const PoolFile file(directory, TwoSnapshots());
  Result<WrittenBookmark> first = Keep(file, directory, 1, 100 * kBlock);
  ASSERT_OK(first);
  // Of whatever snapshot it is asked then.
  Result<WrittenBookmark> again = Keep(file, directory, 2, 100 * kBlock);
  ASSERT_OK(again);
  EXPECT_EQ(again->info.creation_time, 1u);
  EXPECT_EQ(again->file_bytes, first->file_bytes);
  std::mt19937_64 random(test::Seed());
  const std::vector<uint8_t> sound = test::ReadBytes(directory.At("kept"));
  ThinScanRequest request = file.Request(std::nullopt, 2);
  request.bookmark_path = directory.At("kept");
  for (int round = 0; round < 50; round++) {
    std::vector<uint8_t> damaged = sound;
    damaged[random() % damaged.size()] ^= static_cast<uint8_t>(1 + random() % 255);
    test::WriteBytes(directory.At("kept"), 0, damaged);
    EXPECT_CODE(Keep(file, directory, 1, 100 * kBlock), kThinMetadataInvalid);
    std::vector<uint8_t> buffer(4096);
    EXPECT_CODE(FillFromThin(request, 100 * kBlock, Unlimited(),
                             Span<uint8_t>(buffer.data(), buffer.size())),
                kThinMetadataInvalid);
  }
}

Result<FillOutcome> FillOnce(const ThinScanRequest& request) {
  std::vector<uint8_t> buffer(4096);
  return FillFromThin(request, 100 * kBlock, Unlimited(),
                      Span<uint8_t>(buffer.data(), buffer.size()));
}

TEST(ThinFillTest, RefusesABookmarkForATargetThatIsNotYounger) {
  const test::TempDirectory directory;
  const PoolFile file(directory, TwoSnapshots());
  ASSERT_OK(Keep(file, directory, 2, 100 * kBlock));
  ThinScanRequest request = file.Request(std::nullopt, 1);
  request.bookmark_path = directory.At("kept");
  EXPECT_CODE(FillOnce(request), kScanUnsupported);
  request.target.id = 2;
  EXPECT_CODE(FillOnce(request), kScanUnsupported);
}

TEST(ThinFillTest, RefusesTimesThatMappingsCannotHold) {
  const test::TempDirectory directory;
  Family family = TwoSnapshots();
  const std::string path = directory.At("metadata");
  const auto write = [&](uint32_t time) {
    test::WriteBytes(path, 0,
                     family.trees.PoolImage({{1, family.roots[0], 1}, {2, family.roots[1], time}}));
  };
  write((1 << 24) - 1);
  PoolFile file(directory, family);
  write((1 << 24) - 1);
  EXPECT_CODE(Keep(file, directory, 2, 100 * kBlock), kScanUnsupported);
  write((1 << 24) - 2);
  EXPECT_OK(Keep(file, directory, 1, 100 * kBlock));
  ThinScanRequest request = file.Request(std::nullopt, 2);
  request.bookmark_path = directory.At("kept");
  EXPECT_OK(FillOnce(request));
  write((1 << 24) - 1);
  EXPECT_CODE(FillOnce(request), kScanUnsupported);
}

TEST(ThinFillTest, FailsWithScanReplacedWhenADeviceHasAnotherTreeThanGiven) {
  const test::TempDirectory directory;
  const Family family = TwoSnapshots();
  const PoolFile file(directory, family);
  ThinScanRequest request = file.Request(1, 2);
  request.base->root = family.roots[0];
  request.target.root = family.roots[1];
  EXPECT_OK(FillOnce(request));
  request.base->root = family.roots[1];
  EXPECT_CODE(FillOnce(request), kScanReplaced);
  // What lies where a tree was that is gone may be anything.
  request.base->root = family.trees.PoolImage({}).size() / kMetadataBlockBytes - 1;
  EXPECT_CODE(FillOnce(request), kScanReplaced);
  request.base->root = family.roots[0];
  request.base->id = 9;
  EXPECT_CODE(FillOnce(request), kScanReplaced);
  request.base->root.reset();
  EXPECT_CODE(FillOnce(request), "ENODATA");
}

}  // namespace
}  // namespace blockdelta
