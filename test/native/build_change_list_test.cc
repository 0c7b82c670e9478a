// Change lists of real snapshots: made in steps, compared with the bytes of the snapshots and with
// a direct scan, and refused when a snapshot is not what it was.
#include "native/scan/build_change_list.h"

#include <gtest/gtest.h>

#include "native/device/files.h"
#include "native/scan/change_list_union.h"
#include "native/scan/file_scan.h"
#include "test/native/churn.h"
#include "test/native/random_seed.h"

namespace blockdelta {
namespace {

using test::Churn;
using test::kChurnBlock;
using test::kChurnBytes;

SnapshotToList ToList(const std::string& path) {
  return {path.substr(path.rfind('/') + 1), test::IdentityOf(path)};
}

ChangeListNames NamesOf(const std::string& path) { return {path + ".tmp", path}; }

// The list of a snapshot is beside it.
std::string DeltaOf(const std::string& path) { return path + ".delta"; }
std::string AllocatedOf(const std::string& path) { return path + ".allocated"; }
std::string MapOf(const std::string& path) { return path + ".map"; }

BuildChangeListRequest DeltaRequest(const std::string& target, const std::string& base) {
  return {ToList(target), ToList(base), NamesOf(DeltaOf(target)), std::nullopt, std::nullopt, 40};
}

// Runs all steps. Returns how many there were, or the failure of one.
Result<int> Build(const BuildChangeListRequest& request) {
  std::optional<BuildProgress> progress;
  for (int steps = 1;; steps++) {
    Result<BuildOutcome> outcome = BuildChangeList(request, progress);
    if (!outcome.ok()) return outcome.TakeStatus();
    if (outcome->done) return steps;
    progress = outcome->progress;
  }
}

FillLimits SomeLimits() { return {0, 0, 100, 30, 70, true}; }

test::Scan ScanLists(const ChangeListRequest& request) {
  const test::Call call = [&](const FillLimits& limits, Span<uint8_t> buffer) {
    return FillFromLists(request, limits, buffer);
  };
  return test::RunScan(call, request.size_bytes, 0, 1 << 16, SomeLimits);
}

test::Scan ScanDirectly(const std::string& target, const std::optional<std::string>& base) {
  const test::Call call = [&](const FillLimits& limits, Span<uint8_t> buffer) {
    std::optional<SnapshotIdentity> base_file;
    if (base.has_value()) base_file = test::IdentityOf(*base);
    return FillFromFiles(test::IdentityOf(target), base_file, limits, buffer);
  };
  return test::RunScan(call, kChurnBytes, 0, 1 << 16, SomeLimits);
}

ChangeListRequest UnionOf(const std::vector<std::string>& snapshots, size_t base, size_t target) {
  ChangeListRequest request;
  for (size_t i = base + 1; i <= target; i++) request.paths.push_back(DeltaOf(snapshots[i]));
  request.target_id = ToList(snapshots[target]).id;
  request.base_id = ToList(snapshots[base]).id;
  request.size_bytes = kChurnBytes;
  request.target = test::IdentityOf(snapshots[target]);
  request.base = test::IdentityOf(snapshots[base]);
  return request;
}

class BuildChangeListTest : public test::PoolTest {
 protected:
  bool is_xfs() const { return std::string(GetParam()) == "xfs"; }
};
INSTANTIATE_TEST_SUITE_P(, BuildChangeListTest, testing::Values("xfs", "btrfs"), test::KindOf);

TEST_P(BuildChangeListTest, MissesNoDifferingByteBetweenAnyTwoSnapshotsOfAChain) {
  if (pool_ == nullptr) return;
  const std::string volume = pool_->At("volume");
  EXPECT_OK(CreateSparseFile({volume + ".tmp", volume}, kChurnBytes));
  Churn churn(volume, test::Seed());
  std::vector<std::string> snapshots;
  std::vector<std::vector<uint8_t>> bytes;
  int steps = 0;
  const int rounds = test::IsNightly() ? 40 : 8;
  for (int round = 0; round < rounds; round++) {
    for (uint64_t i = churn.Below(60); i > 0; i--) churn.Step();
    snapshots.push_back(pool_->At("snapshot-" + std::to_string(round)));
    const std::string& target = snapshots.back();
    ASSERT_TRUE(test::Take(volume, target));
    bytes.push_back(test::ReadBytes(target));
    BuildChangeListRequest request = {ToList(target), std::nullopt, NamesOf(AllocatedOf(target)),
                                      std::nullopt,   std::nullopt, 30};
    if (is_xfs()) request.map_names = NamesOf(MapOf(target));
    if (round > 0) {
      request.base = ToList(snapshots[snapshots.size() - 2]);
      request.names = NamesOf(DeltaOf(target));
      if (is_xfs()) request.base_map = MapOf(snapshots[snapshots.size() - 2]);
    }
    Result<int> built = Build(request);
    ASSERT_OK(built);
    steps += *built;
    if (round == 0) continue;
    // A step is exactly what a direct scan finds, also with the stored map in place of a scan.
    const std::string& base = snapshots[snapshots.size() - 2];
    const size_t last = snapshots.size() - 1;
    if (is_xfs()) {
      EXPECT_EQ(ScanLists(UnionOf(snapshots, last - 1, last)).ranges,
                ScanDirectly(target, base).ranges);
    }
    for (size_t from = 0; from < last; from++) {
      test::CheckCovers(ScanLists(UnionOf(snapshots, from, last)), bytes[last], bytes[from]);
    }
  }
  EXPECT_GT(steps, rounds);
}

TEST_P(BuildChangeListTest, ListsTheAllocatedRangesAsADirectScanDoes) {
  if (pool_ == nullptr) return;
  const std::string volume = pool_->At("volume");
  EXPECT_OK(CreateSparseFile({volume + ".tmp", volume}, kChurnBytes));
  Churn churn(volume, test::Seed());
  for (int i = 0; i < 80; i++) churn.Step();
  const std::string snapshot = pool_->At("snapshot");
  ASSERT_TRUE(test::Take(volume, snapshot));
  ASSERT_OK(Build({ToList(snapshot), std::nullopt, NamesOf(AllocatedOf(snapshot)), std::nullopt,
                   std::nullopt, 10}));
  ChangeListRequest request;
  request.paths = {AllocatedOf(snapshot)};
  request.target_id = ToList(snapshot).id;
  request.size_bytes = kChurnBytes;
  request.target = test::IdentityOf(snapshot);
  const test::Scan scan = ScanLists(request);
  EXPECT_EQ(scan.ranges, ScanDirectly(snapshot, std::nullopt).ranges);
  test::CheckCovers(scan, test::ReadBytes(snapshot), {});
}

// Three snapshots of a volume whose blocks are written one after the other.
std::vector<std::string> ThreeSnapshots(const test::Pool& pool) {
  const std::string volume = pool.At("volume");
  EXPECT_OK(CreateSparseFile({volume + ".tmp", volume}, kChurnBytes));
  std::vector<std::string> snapshots;
  for (uint8_t i = 0; i < 3; i++) {
    for (uint64_t block = i; block < 200; block += 3) {
      test::WriteBytes(volume, block * kChurnBlock, std::vector<uint8_t>(kChurnBlock, i + 1));
    }
    snapshots.push_back(pool.At("snapshot-" + std::to_string(i)));
    EXPECT_TRUE(test::Take(volume, snapshots.back()));
  }
  return snapshots;
}

// Root clears the flag and sets it again: the file may have changed meanwhile.
void Touch(const std::string& path) {
  // Change times of older kernels have the grain of the timer, 10 ms at most.
  SleepMs(20);
  EXPECT_OK(test::SetImmutable(path, false));
  EXPECT_OK(test::SetImmutable(path, true));
}

TEST_P(BuildChangeListTest, RefusesASnapshotThatIsTouchedBetweenTwoSteps) {
  if (pool_ == nullptr) return;
  const std::vector<std::string> snapshots = ThreeSnapshots(*pool_);
  for (const std::string& touched : {snapshots[0], snapshots[1]}) {
    const BuildChangeListRequest request = DeltaRequest(snapshots[1], snapshots[0]);
    Result<BuildOutcome> first = BuildChangeList(request, std::nullopt);
    ASSERT_OK(first);
    ASSERT_FALSE(first->done);
    Touch(touched);
    EXPECT_CODE(BuildChangeList(request, first->progress), "SCAN_MUTABLE");
  }
  EXPECT_OK(Build(DeltaRequest(snapshots[1], snapshots[0])));
}

TEST_P(BuildChangeListTest, RefusesAListOfAFileThatWasTouchedAfterIt) {
  if (pool_ == nullptr) return;
  const std::vector<std::string> snapshots = ThreeSnapshots(*pool_);
  const auto code = [&](size_t base, size_t target) {
    std::vector<uint8_t> buffer(1 << 16);
    FillLimits limits = SomeLimits();
    limits.max_entries = limits.max_extents = 10'000;
    return test::CodeOf(FillFromLists(UnionOf(snapshots, base, target), limits,
                                      Span<uint8_t>(buffer.data(), buffer.size())));
  };
  ASSERT_OK(Build(DeltaRequest(snapshots[1], snapshots[0])));
  ASSERT_OK(Build(DeltaRequest(snapshots[2], snapshots[1])));
  EXPECT_EQ(code(0, 2), "");
  // Between base and target: the step after it was not made from the file as it is now, but both
  // steps were made from the same one.
  Touch(snapshots[1]);
  EXPECT_EQ(code(0, 1), "LIST_INVALID");
  EXPECT_EQ(code(1, 2), "LIST_INVALID");
  EXPECT_EQ(code(0, 2), "");
  // Made again, the second step no longer continues the first.
  ASSERT_OK(Build(DeltaRequest(snapshots[2], snapshots[1])));
  EXPECT_EQ(code(0, 2), "LIST_INVALID");
  ASSERT_OK(Build(DeltaRequest(snapshots[1], snapshots[0])));
  EXPECT_EQ(code(0, 2), "");
}

TEST_P(BuildChangeListTest, UsesAStoredMapOnlyOfTheBaseAndOnlyWhereExtentsStayInPlace) {
  if (pool_ == nullptr) return;
  const std::vector<std::string> snapshots = ThreeSnapshots(*pool_);
  BuildChangeListRequest request = DeltaRequest(snapshots[1], snapshots[0]);
  request.map_names = NamesOf(MapOf(snapshots[1]));
  if (!is_xfs()) {
    EXPECT_CODE(Build(request), "SCAN_UNSUPPORTED");
    EXPECT_FALSE(test::Exists(MapOf(snapshots[1])));
    return;
  }
  ASSERT_OK(Build(request));
  BuildChangeListRequest next = DeltaRequest(snapshots[2], snapshots[1]);
  next.base_map = MapOf(snapshots[1]);
  EXPECT_OK(Build(next));
  BuildChangeListRequest other = DeltaRequest(snapshots[2], snapshots[0]);
  other.base_map = MapOf(snapshots[1]);
  EXPECT_CODE(Build(other), "LIST_INVALID");
  next.base_map = DeltaOf(snapshots[1]);
  EXPECT_CODE(Build(next), "LIST_INVALID");
  Touch(snapshots[1]);
  next.base_map = MapOf(snapshots[1]);
  EXPECT_CODE(Build(next), "LIST_INVALID");
}

}  // namespace
}  // namespace blockdelta
