// Change lists of thin snapshots: made in steps from metadata in files, and compared with plain
// maps of what the trees hold.
#include "native/thin/build_thin_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>

#include "native/scan/change_list_union.h"
#include "native/thin/create_bookmark.h"
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
// As many as RandomFamily() uses.
constexpr uint64_t kMostKeys = 2000;

std::string IdOf(size_t snapshot) { return "snapshot-" + std::to_string(snapshot); }

// The snapshots of a family in a pool: number k, counted from 0, is thin device k + 1, which was
// created at time k + 1. The volume grows in between, and maps nothing beyond its end.
class Pool {
 public:
  Pool(Family family, std::mt19937_64* random) : family_(std::move(family)) {
    std::vector<test::TreeDevice> devices;
    uint64_t bytes = kMostKeys * kBlock;
    for (size_t i = 0; i < family_.roots.size(); i++) {
      devices.push_back({i + 1, family_.roots[i], static_cast<uint32_t>(i) + 1});
      bytes += (1 + (*random)() % (600 * kBlock / 512)) * 512;
      sizes_.push_back(bytes);
    }
    test::WriteBytes(metadata(), 0, family_.trees.PoolImage(devices));
  }

  std::string metadata() const { return directory_.At("metadata"); }
  std::string ListOf(size_t base, size_t target) const {
    return directory_.At(std::to_string(base) + "-" + std::to_string(target));
  }
  size_t snapshots() const { return family_.roots.size(); }
  uint64_t size(size_t snapshot) const { return sizes_[snapshot]; }
  Mappings Content(size_t snapshot) const { return family_.trees.Content(family_.roots[snapshot]); }
  uint64_t root(size_t snapshot) const { return family_.roots[snapshot]; }

  BuildThinListRequest Request(std::optional<size_t> base, size_t target) const {
    BuildThinListRequest request;
    request.metadata = metadata();
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

  // A request with the bookmark of the base in its place.
  BuildThinListRequest BookmarkRequestFor(size_t base, size_t target) const {
    BookmarkRequest bookmark;
    bookmark.metadata = metadata();
    bookmark.superblock = 0;
    bookmark.device = {base + 1, std::nullopt};
    bookmark.size_bytes = size(base);
    bookmark.path = directory_.At("bookmark-" + std::to_string(base));
    bookmark.temporary_path = bookmark.path + ".tmp";
    EXPECT_OK(CreateBookmark(bookmark));
    BuildThinListRequest request = Request(base, target);
    request.base.reset();
    request.bookmark_path = bookmark.path;
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
  const test::TempDirectory directory_;
  Family family_;
  std::vector<uint64_t> sizes_;
};

// Runs all steps. Returns how many there were, or the failure of one.
Result<int> Build(const BuildThinListRequest& request) {
  std::optional<BuildProgress> progress;
  for (int steps = 1;; steps++) {
    Result<BuildOutcome> outcome = BuildThinList(request, progress);
    if (!outcome.ok()) return outcome.TakeStatus();
    if (outcome->done) return steps;
    progress = outcome->progress;
  }
}

std::vector<Range> ScanLists(const ChangeListRequest& request) {
  const test::Call call = [&](const FillLimits& limits, Span<uint8_t> buffer) {
    return FillFromLists(request, limits, buffer);
  };
  const test::Scan scan = test::RunScan(call, request.size_bytes, 0, 1 << 16,
                                        [] { return FillLimits{0, 0, 100, 30, 70, true}; });
  EXPECT_TRUE(scan.complete);
  return scan.ranges;
}

// The code of a refusal, or "" if lists answer.
std::string CodeOfUnion(const ChangeListRequest& request) {
  std::vector<uint8_t> buffer(4096);
  Result<FillOutcome> outcome = FillFromLists(request, FillLimits{0, 0, 100, 30, 70, true},
                                              Span<uint8_t>(buffer.data(), buffer.size()));
  return test::CodeOf(outcome);
}

// Blocks that two snapshots map differently.
std::set<uint64_t> Changed(const Mappings& base, const Mappings& target) {
  std::set<uint64_t> blocks;
  for (const auto& [block, value] : target) {
    const auto other = base.find(block);
    if (other == base.end() || other->second >> 24 != value >> 24) blocks.insert(block);
  }
  for (const auto& [block, value] : base) {
    if (target.count(block) == 0) blocks.insert(block);
  }
  return blocks;
}

std::vector<Range> ToRanges(const std::set<uint64_t>& blocks, uint64_t size) {
  std::vector<Range> ranges;
  for (const uint64_t block : blocks) {
    const uint64_t begin = block * kBlock;
    const uint64_t end = std::min(begin + kBlock, size);
    if (begin >= end) continue;
    if (!ranges.empty() && ranges.back().offset + ranges.back().size == begin) {
      ranges.back().size += end - begin;
    } else {
      ranges.push_back({begin, end - begin});
    }
  }
  return ranges;
}

class BuildThinListTest : public testing::Test {
 protected:
  std::mt19937_64 random_{test::Seed()};
};

TEST_F(BuildThinListTest, ListsWhatDiffersFromASnapshotOrItsBookmark) {
  for (int round = 0; round < (test::IsNightly() ? 300 : 40); round++) {
    const Pool pool(test::RandomFamily(&random_), &random_);
    const size_t base = random_() % (pool.snapshots() - 1);
    const size_t target = base + 1 + random_() % (pool.snapshots() - 1 - base);
    const auto expected =
        ToRanges(Changed(pool.Content(base), pool.Content(target)), pool.size(target));
    ASSERT_OK(Build(pool.Request(base, target)));
    EXPECT_TRUE(ScanLists(pool.Union({base, target})) == expected);
    // The second list takes the place of the first one.
    ASSERT_OK(Build(pool.BookmarkRequestFor(base, target)));
    EXPECT_TRUE(ScanLists(pool.Union({base, target})) == expected);
  }
}

TEST_F(BuildThinListTest, TheUnionOfAChainContainsEveryDifference) {
  for (int round = 0; round < (test::IsNightly() ? 300 : 40); round++) {
    const Pool pool(test::RandomFamily(&random_), &random_);
    const size_t last = pool.snapshots() - 1;
    std::vector<size_t> chain = {0};
    for (size_t i = 1; i <= last; i++) {
      ASSERT_OK(
          Build(random_() % 2 == 0 ? pool.Request(i - 1, i) : pool.BookmarkRequestFor(i - 1, i)));
      chain.push_back(i);
    }
    const std::vector<Range> found = ScanLists(pool.Union(chain));
    for (const uint64_t block : Changed(pool.Content(0), pool.Content(last))) {
      const bool is_found = std::any_of(found.begin(), found.end(), [&](const Range& range) {
        return range.offset <= block * kBlock && block * kBlock < range.offset + range.size;
      });
      EXPECT_TRUE(is_found);
    }
    if (last < 2) continue;
    // Joined, the first two steps say the same.
    const JoinChangeListsRequest join = {pool.ListOf(0, 1), pool.ListOf(1, 2),
                                         pool.ListOf(0, 2) + ".tmp", pool.ListOf(0, 2)};
    ASSERT_OK(JoinChangeLists(join));
    chain.erase(chain.begin() + 1);
    EXPECT_TRUE(ScanLists(pool.Union(chain)) == found);
  }
}

TEST_F(BuildThinListTest, ListsTheAllocatedBlocks) {
  const Pool pool(test::RandomFamily(&random_), &random_);
  ASSERT_OK(Build(pool.Request(std::nullopt, 1)));
  ChangeListRequest request = pool.Union({1});
  request.paths = {pool.ListOf(1, 1)};
  request.base_id.clear();
  request.thin->base.reset();
  EXPECT_TRUE(ScanLists(request) == ToRanges(Changed({}, pool.Content(1)), pool.size(1)));
}

Family ThreeSnapshots() {
  Family family = {test::MappingTrees(4), {}};
  uint64_t root = family.trees.Empty();
  for (uint64_t block = 0; block < 60; block++) root = family.trees.Set(root, block, block << 24);
  for (uint64_t time = 1; time <= 3; time++) {
    family.roots.push_back(root);
    family.trees.Share();
    for (uint64_t block = time; block < 60; block += 7) {
      root = family.trees.Set(root, block, (time * 100 + block) << 24 | time);
    }
  }
  return family;
}

TEST_F(BuildThinListTest, WorksInStepsAndRefusesAnotherDeviceInALaterOne) {
  const Pool pool(ThreeSnapshots(), &random_);
  const BuildThinListRequest request = pool.Request(0, 2);
  Result<BuildOutcome> first = BuildThinList(request, std::nullopt);
  ASSERT_OK(first);
  ASSERT_FALSE(first->done);
  EXPECT_FALSE(test::Exists(request.names.final));
  BuildThinListRequest other = request;
  other.base->id = 2;
  EXPECT_CODE(BuildThinList(other, first->progress), kScanReplaced);
  other = request;
  other.target.root = pool.root(0);
  EXPECT_CODE(BuildThinList(other, first->progress), kScanReplaced);
  other = request;
  other.target.id = 9;
  EXPECT_CODE(BuildThinList(other, first->progress), "ENODATA");
  EXPECT_OK(Build(request));
}

TEST_F(BuildThinListTest, RefusesATargetThatIsNotYoungerOrSmaller) {
  const Pool pool(ThreeSnapshots(), &random_);
  BuildThinListRequest request = pool.Request(2, 0);
  request.base_bytes = request.target_bytes;
  EXPECT_CODE(BuildThinList(request, std::nullopt), kScanUnsupported);
  request = pool.Request(0, 2);
  request.base_bytes = request.target_bytes + 512;
  EXPECT_CODE(BuildThinList(request, std::nullopt), kScanUnsupported);
  request = pool.Request(0, 2);
  request.target_bytes++;
  EXPECT_CODE(BuildThinList(request, std::nullopt), "EINVAL");
  request = pool.Request(0, 2);
  request.base_id.clear();
  EXPECT_CODE(BuildThinList(request, std::nullopt), "EINVAL");
}

TEST_F(BuildThinListTest, RefusesListsOfOtherThinDevicesAndListsOfFiles) {
  const Pool pool(ThreeSnapshots(), &random_);
  ASSERT_OK(Build(pool.Request(0, 1)));
  ASSERT_OK(Build(pool.Request(1, 2)));
  ASSERT_OK(Build(pool.Request(0, 2)));
  EXPECT_EQ(CodeOfUnion(pool.Union({0, 1, 2})), "");
  ChangeListRequest request = pool.Union({0, 1, 2});
  request.thin->target++;
  EXPECT_EQ(CodeOfUnion(request), kListInvalid);
  request = pool.Union({0, 1, 2});
  request.thin->base = 7;
  EXPECT_EQ(CodeOfUnion(request), kListInvalid);
  // As a request to a pool of files asks for it.
  request = pool.Union({0, 1, 2});
  request.thin.reset();
  EXPECT_EQ(CodeOfUnion(request), kListInvalid);
  // A gap in the chain.
  request = pool.Union({0, 1, 2});
  request.paths[0] = pool.ListOf(0, 2);
  EXPECT_EQ(CodeOfUnion(request), kListInvalid);
}

}  // namespace
}  // namespace blockdelta
