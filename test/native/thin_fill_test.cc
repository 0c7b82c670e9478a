// Fills, bookmarks and change lists from thin metadata in files, call by call and step by step,
// against plain maps of what the trees hold.
#include "native/thin/thin_fill.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>

#include "native/thin/build_thin_list.h"
#include "native/thin/create_bookmark.h"
#include "native/thin/thin_format.h"
#include "test/native/chunks.h"
#include "test/native/pool.h"
#include "test/native/random_seed.h"
#include "test/native/status_assertions.h"
#include "test/native/thin_image.h"
#include "test/native/thin_walk.h"

namespace blockdelta::test {
namespace {

constexpr uint64_t kBlock = 65536;
// As many as RandomFamily() uses.
constexpr uint64_t kMostKeys = 2000;
constexpr uint64_t kMany = 1 << 20;
// Of a volume with the few blocks that are mapped by hand.
constexpr uint64_t kSize = 100 * kBlock;

// What a scan is to report: `offset` and `size` are bytes.
std::vector<Range> Changed(const Mappings& base, const Mappings& target, uint64_t offset,
                           uint64_t size) {
  return RangesOf(ExpectedKinds(base, target), kBlock, offset, size);
}

std::string IdOf(size_t snapshot) { return "snapshot-" + std::to_string(snapshot); }

// The snapshots of a family in a pool: number k, counted from 0, is thin device k + 1, which was
// created at time k + 1. The volume grows in between, and maps nothing beyond its end.
class ThinFile {
 public:
  ThinFile(Family family, std::mt19937_64* random) : family_(std::move(family)) {
    uint64_t bytes = kMostKeys * kBlock;
    for (size_t i = 0; i < family_.roots.size(); i++) {
      plan_.devices.push_back({i + 1, family_.roots[i], static_cast<uint32_t>(i) + 1});
      bytes += (1 + (*random)() % (600 * kBlock / 512)) * 512;
      sizes_.push_back(bytes);
    }
    Write();
  }

  // The snapshot was made then.
  void SetTime(size_t snapshot, uint32_t time) {
    plan_.devices[snapshot].created = time;
    Write();
  }

  std::string At(const std::string& name) const { return directory_.At(name); }
  std::string ListOf(size_t base, size_t target) const {
    return At(std::to_string(base) + "-" + std::to_string(target));
  }
  uint64_t blocks() const { return blocks_; }
  size_t snapshots() const { return family_.roots.size(); }
  uint64_t size(size_t snapshot) const { return sizes_[snapshot]; }
  Mappings Content(size_t snapshot) const { return family_.trees.Content(family_.roots[snapshot]); }
  uint64_t root(size_t snapshot) const { return family_.roots[snapshot]; }

  ThinScanRequest Scan(std::optional<size_t> base, size_t target) const {
    ThinScanRequest request;
    request.metadata = At("metadata");
    request.target = {target + 1, std::nullopt};
    if (base.has_value()) request.base = ThinDeviceRef{*base + 1, std::nullopt};
    return request;
  }

  Result<WrittenBookmark> Keep(size_t snapshot, uint64_t size) const {
    return CreateBookmark(
        {At("metadata"), 0, {snapshot + 1, std::nullopt}, size, At("kept.tmp"), At("kept")});
  }
  ThinScanRequest ScanFromKept(size_t target) const {
    ThinScanRequest request = Scan(std::nullopt, target);
    request.bookmark_path = At("kept");
    return request;
  }

  BuildThinListRequest List(std::optional<size_t> base, size_t target) const {
    BuildThinListRequest request;
    request.metadata = At("metadata");
    request.target_id = IdOf(target);
    request.target_bytes = size(target);
    request.target = {target + 1, std::nullopt};
    if (base.has_value()) {
      request.base_id = IdOf(*base);
      request.base_bytes = size(*base);
      request.base = ThinDeviceRef{*base + 1, std::nullopt};
    }
    const std::string path = ListOf(base.value_or(target), target);
    request.names = {path + ".tmp", path};
    request.max_nodes = 3;
    return request;
  }
  // With the bookmark of the base in its place.
  BuildThinListRequest ListFromBookmark(size_t base, size_t target) const {
    unlink(At("kept").c_str());
    EXPECT_OK(Keep(base, size(base)));
    BuildThinListRequest request = List(base, target);
    request.base.reset();
    request.bookmark_path = At("kept");
    return request;
  }

  ChangeListRequest Union(const std::vector<size_t>& chain) const {
    ChangeListRequest request;
    for (size_t i = 1; i < chain.size(); i++) {
      request.paths.push_back(ListOf(chain[i - 1], chain[i]));
    }
    request.target_id = IdOf(chain.back());
    request.base_id = IdOf(chain.front());
    request.size_bytes = size(chain.back());
    request.thin =
        ThinTimes{static_cast<uint32_t>(chain.back() + 1), static_cast<uint32_t>(chain[0] + 1)};
    return request;
  }

 private:
  void Write() {
    const ThinPool pool = MakePool(family_.trees, plan_);
    blocks_ = pool.blocks();
    WriteBytes(At("metadata"), 0, pool.image);
  }

  const TempDirectory directory_;
  const Family family_;
  PoolPlan plan_;
  std::vector<uint64_t> sizes_;
  uint64_t blocks_ = 0;
};

Result<Scan> ScanThin(const ThinScanRequest& request, uint64_t size, uint64_t offset,
                      uint64_t max_nodes, size_t buffer, const NextLimits& limits) {
  const auto fill = [&](const FillLimits& each, Span<uint8_t> bytes) {
    return FillFromThin(request, size, each, bytes, max_nodes);
  };
  return RunScan(fill, size, offset, buffer, limits);
}

FillLimits Unlimited() { return {0, 0, kMany, kMany, kMany, false}; }

Result<Scan> ScanOnce(const ThinScanRequest& request) {
  return ScanThin(request, kSize, 0, kMaxNodesPerFill, 4096, Unlimited);
}

class ThinFillTest : public testing::Test {
 protected:
  // Whole calls and little ones, from the beginning and from the middle, are to say the same.
  void ExpectScan(const ThinScanRequest& request, const Mappings& base, const Mappings& target,
                  uint64_t size) {
    for (const uint64_t offset : {uint64_t{0}, random_() % (size + 1)}) {
      const std::string expected = Text(Changed(base, target, offset, size));
      ASSERT_VALUE(whole, ScanThin(request, size, offset, kMaxNodesPerFill, 1 << 20, Unlimited));
      EXPECT_EQ(Text(whole.ranges), expected);
      const auto limits = [&] {
        return FillLimits{0, 0, 1 + random_() % 40, 1 + random_() % 10, 1 + random_() % 50, false};
      };
      ASSERT_VALUE(pieces, ScanThin(request, size, offset, 1 + random_() % 8, 4096, limits));
      EXPECT_EQ(Text(pieces.ranges), expected);
    }
  }

  std::mt19937_64 random_{Seed()};
};

TEST_F(ThinFillTest, FillsFromTheMapsOfThinDevicesWhateverTheCalls) {
  for (int round = 0; round < (IsNightly() ? 500 : 40); round++) {
    const ThinFile pool(RandomFamily(&random_), &random_);
    const size_t base = random_() % pool.snapshots();
    const size_t target = random_() % pool.snapshots();
    const uint64_t size = 1 + random_() % (3000 * kBlock);
    ExpectScan(pool.Scan(std::nullopt, target), {}, pool.Content(target), size);
    ExpectScan(pool.Scan(base, target), pool.Content(base), pool.Content(target), size);
  }
}

TEST_F(ThinFillTest, GivesTheSameDeltaAgainstABookmarkAsAgainstItsSnapshot) {
  for (int round = 0; round < (IsNightly() ? 500 : 60); round++) {
    const ThinFile pool(RandomFamily(&random_), &random_);
    const size_t base = random_() % (pool.snapshots() - 1);
    const size_t target = base + 1 + random_() % (pool.snapshots() - 1 - base);
    const Mappings base_map = pool.Content(base);
    const uint64_t size = 1 + random_() % (3000 * kBlock);
    ASSERT_VALUE(kept, pool.Keep(base, size));
    EXPECT_EQ(kept.info.creation_time, base + 1);
    const auto beyond = base_map.lower_bound((size + kBlock - 1) / kBlock);
    EXPECT_EQ(kept.info.mapped_blocks,
              static_cast<uint64_t>(std::distance(base_map.begin(), beyond)));
    EXPECT_FALSE(Exists(pool.At("kept.tmp")));
    ExpectScan(pool.ScanFromKept(target), base_map, pool.Content(target), size);
  }
}

TEST_F(ThinFillTest, BookmarksABaseOfManyLittleRangesAsABitmap) {
  Family family = {MappingTrees(252), {}};
  uint64_t root = family.trees.Empty();
  // More than a page of bits, which has 32,640.
  for (uint64_t block = 0; block < 40'000; block += 1 + random_() % 3) {
    root = family.trees.Set(root, block, block << 24);
  }
  family.roots.push_back(root);
  family.trees.Share();
  for (uint64_t i = 0; i < 3000; i++) {
    const uint64_t block = random_() % 45'000;
    root = random_() % 2 == 0 ? family.trees.Set(root, block, (50'000 + i) << 24 | 1)
                              : family.trees.Remove(root, block);
  }
  family.roots.push_back(root);
  const ThinFile pool(std::move(family), &random_);
  const uint64_t size = 41'000 * kBlock - 1;
  ASSERT_VALUE(kept, pool.Keep(0, size));
  EXPECT_EQ(kept.info.form, BookmarkForm::kBitmap);
  EXPECT_EQ(kept.file_bytes, uint64_t{3} * 4096);
  ASSERT_VALUE(scan, ScanThin(pool.ScanFromKept(1), size, 0, 40, 1 << 20, Unlimited));
  EXPECT_GT(scan.calls, 1u);
  EXPECT_EQ(Text(scan.ranges), Text(Changed(pool.Content(0), pool.Content(1), 0, size)));
}

// So many snapshots of 60 blocks, of which some are written to in between.
Family SomeSnapshots(uint64_t count) {
  Family family = {MappingTrees(4), {}};
  uint64_t root = family.trees.Empty();
  for (uint64_t block = 0; block < 60; block++) root = family.trees.Set(root, block, block << 24);
  for (uint64_t time = 1; time <= count; time++) {
    family.roots.push_back(root);
    family.trees.Share();
    for (uint64_t block = time; block < 60; block += 7) {
      root = family.trees.Set(root, block, (time * 100 + block) << 24 | time);
    }
  }
  return family;
}

TEST_F(ThinFillTest, RefusesToBookmarkASnapshotThatWasWrittenTo) {
  Family family = SomeSnapshots(2);
  // A mapping as young as the snapshot, which was made at time 2.
  family.roots[1] = family.trees.Set(family.roots[1], 3, uint64_t{1000} << 24 | 2);
  const ThinFile pool(std::move(family), &random_);
  EXPECT_CODE(pool.Keep(1, kSize), "EINVAL");
  EXPECT_TRUE(!Exists(pool.At("kept")) && !Exists(pool.At("kept.tmp")));
}

TEST_F(ThinFillTest, ReportsAnExistingBookmarkAndRefusesADamagedOne) {
  const ThinFile pool(SomeSnapshots(2), &random_);
  ASSERT_VALUE(first, pool.Keep(0, kSize));
  // Of whatever snapshot it is asked then.
  ASSERT_VALUE(again, pool.Keep(1, kSize));
  EXPECT_EQ(again.info.creation_time, 1u);
  EXPECT_EQ(again.file_bytes, first.file_bytes);
  const std::vector<uint8_t> sound = ReadBytes(pool.At("kept"));
  for (int round = 0; round < 50; round++) {
    std::vector<uint8_t> damaged = sound;
    damaged[random_() % damaged.size()] ^= static_cast<uint8_t>(1 + random_() % 255);
    WriteBytes(pool.At("kept"), 0, damaged);
    EXPECT_CODE(pool.Keep(0, kSize), kThinMetadataInvalid);
    EXPECT_CODE(ScanOnce(pool.ScanFromKept(1)), kThinMetadataInvalid);
  }
}

TEST_F(ThinFillTest, RefusesABookmarkForATargetThatIsNotYounger) {
  const ThinFile pool(SomeSnapshots(2), &random_);
  ASSERT_OK(pool.Keep(1, kSize));
  for (const size_t target : {0, 1}) {
    EXPECT_CODE(ScanOnce(pool.ScanFromKept(target)), kScanUnsupported);
  }
}

TEST_F(ThinFillTest, RefusesTimesThatMappingsCannotHold) {
  ThinFile pool(SomeSnapshots(2), &random_);
  pool.SetTime(1, (1 << 24) - 1);
  EXPECT_CODE(pool.Keep(1, kSize), kScanUnsupported);
  pool.SetTime(1, (1 << 24) - 2);
  EXPECT_OK(pool.Keep(0, kSize));
  EXPECT_OK(ScanOnce(pool.ScanFromKept(1)));
  pool.SetTime(1, (1 << 24) - 1);
  EXPECT_CODE(ScanOnce(pool.ScanFromKept(1)), kScanUnsupported);
}

TEST_F(ThinFillTest, FailsWithScanReplacedWhenADeviceHasAnotherTreeThanGiven) {
  const ThinFile pool(SomeSnapshots(2), &random_);
  ThinScanRequest request = pool.Scan(0, 1);
  request.base->root = pool.root(0);
  request.target.root = pool.root(1);
  EXPECT_OK(ScanOnce(request));
  request.base->root = pool.root(1);
  EXPECT_CODE(ScanOnce(request), kScanReplaced);
  // What lies where a tree was that is gone may be anything.
  request.base->root = pool.blocks() - 1;
  EXPECT_CODE(ScanOnce(request), kScanReplaced);
  request.base->root = pool.root(0);
  request.base->id = 9;
  EXPECT_CODE(ScanOnce(request), kScanReplaced);
  request.base->root.reset();
  EXPECT_CODE(ScanOnce(request), "ENODATA");
}

// Runs all steps.
Status Build(const BuildThinListRequest& request) {
  std::optional<BuildProgress> progress;
  for (;;) {
    Result<BuildOutcome> outcome = BuildThinList(request, progress);
    if (!outcome.ok() || outcome->done) return outcome.TakeStatus();
    progress = outcome->progress;
  }
}

class BuildThinListTest : public ThinFillTest {};

TEST_F(BuildThinListTest, ListsWhatDiffersFromASnapshotOrItsBookmarkAndWhatIsAllocated) {
  for (int round = 0; round < (IsNightly() ? 300 : 40); round++) {
    const ThinFile pool(RandomFamily(&random_), &random_);
    const size_t base = random_() % (pool.snapshots() - 1);
    const size_t target = base + 1 + random_() % (pool.snapshots() - 1 - base);
    const auto expected = Changed(pool.Content(base), pool.Content(target), 0, pool.size(target));
    ASSERT_OK(Build(pool.List(base, target)));
    EXPECT_EQ(ValueOf(ScanLists(pool.Union({base, target}))), expected);
    // The second list takes the place of the first one.
    ASSERT_OK(Build(pool.ListFromBookmark(base, target)));
    EXPECT_EQ(ValueOf(ScanLists(pool.Union({base, target}))), expected);
    ASSERT_OK(Build(pool.List(std::nullopt, target)));
    ChangeListRequest request = pool.Union({target});
    request.paths = {pool.ListOf(target, target)};
    request.base_id.clear();
    request.thin->base.reset();
    EXPECT_EQ(ValueOf(ScanLists(request)), Changed({}, pool.Content(target), 0, pool.size(target)));
  }
}

TEST_F(BuildThinListTest, TheUnionOfAChainContainsEveryDifference) {
  for (int round = 0; round < (IsNightly() ? 300 : 40); round++) {
    const ThinFile pool(RandomFamily(&random_), &random_);
    const size_t last = pool.snapshots() - 1;
    std::vector<size_t> chain = {0};
    for (size_t i = 1; i <= last; i++) {
      ASSERT_OK(Build(random_() % 2 == 0 ? pool.List(i - 1, i) : pool.ListFromBookmark(i - 1, i)));
      chain.push_back(i);
    }
    ASSERT_VALUE(found, ScanLists(pool.Union(chain)));
    for (const Range& changed : Changed(pool.Content(0), pool.Content(last), 0, pool.size(last))) {
      EXPECT_TRUE(std::any_of(found.begin(), found.end(), [&](const Range& range) {
        return range.offset <= changed.offset &&
               changed.offset + changed.size <= range.offset + range.size;
      }));
    }
    if (last < 2) continue;
    // Joined, the first two steps say the same.
    ASSERT_OK(JoinChangeLists(
        {pool.ListOf(0, 1), pool.ListOf(1, 2), pool.ListOf(0, 2) + ".tmp", pool.ListOf(0, 2)}));
    chain.erase(chain.begin() + 1);
    EXPECT_EQ(ValueOf(ScanLists(pool.Union(chain))), found);
  }
}

TEST_F(BuildThinListTest, WorksInStepsAndRefusesAnotherDeviceInALaterOne) {
  const ThinFile pool(SomeSnapshots(3), &random_);
  const BuildThinListRequest request = pool.List(0, 2);
  ASSERT_VALUE(first, BuildThinList(request, std::nullopt));
  ASSERT_FALSE(first.done);
  EXPECT_FALSE(Exists(request.names.final));
  const auto code_with = [&](const auto& change) {
    return CodeOf(BuildThinList(With(request, change), first.progress));
  };
  EXPECT_EQ(code_with([](auto* other) { other->base->id = 2; }), kScanReplaced);
  EXPECT_EQ(code_with([&](auto* other) { other->target.root = pool.root(0); }), kScanReplaced);
  EXPECT_EQ(code_with([](auto* other) { other->target.id = 9; }), "ENODATA");
  EXPECT_OK(Build(request));
}

TEST_F(BuildThinListTest, RefusesATargetThatIsNotYoungerOrSmaller) {
  const ThinFile pool(SomeSnapshots(3), &random_);
  const auto code_with = [](const BuildThinListRequest& request, const auto& change) {
    return CodeOf(BuildThinList(With(request, change), std::nullopt));
  };
  const BuildThinListRequest sound = pool.List(0, 2);
  EXPECT_EQ(code_with(pool.List(2, 0), [](auto* list) { list->base_bytes = list->target_bytes; }),
            kScanUnsupported);
  EXPECT_EQ(code_with(sound, [](auto* list) { list->base_bytes = list->target_bytes + 512; }),
            kScanUnsupported);
  EXPECT_EQ(code_with(sound, [](auto* list) { list->target_bytes++; }), "EINVAL");
  EXPECT_EQ(code_with(sound, [](auto* list) { list->base_id.clear(); }), "EINVAL");
}

TEST_F(BuildThinListTest, RefusesListsOfOtherThinDevicesAndListsOfFiles) {
  const ThinFile pool(SomeSnapshots(3), &random_);
  ASSERT_OK(Build(pool.List(0, 1)));
  ASSERT_OK(Build(pool.List(1, 2)));
  ASSERT_OK(Build(pool.List(0, 2)));
  const auto code_with = [&](const auto& change) {
    return CodeOf(ScanLists(With(pool.Union({0, 1, 2}), change)));
  };
  EXPECT_EQ(code_with([](ChangeListRequest*) {}), "");
  EXPECT_EQ(code_with([](auto* request) { request->thin->target++; }), kListInvalid);
  EXPECT_EQ(code_with([](auto* request) { request->thin->base = 7; }), kListInvalid);
  // As a request to a pool of files asks for it.
  EXPECT_EQ(code_with([](auto* request) { request->thin.reset(); }), kListInvalid);
  // A gap in the chain.
  EXPECT_EQ(code_with([&](auto* request) { request->paths[0] = pool.ListOf(0, 2); }), kListInvalid);
}

}  // namespace
}  // namespace blockdelta::test
