// Scans and change lists of real snapshot files: compared with their bytes and with each other, and
// refused when they prove nothing.
#include "native/scan/file_scan.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <random>
#include <thread>

#include "native/device/files.h"
#include "native/device/take_snapshots.h"
#include "native/scan/address_fence.h"
#include "native/scan/build_change_list.h"
#include "native/scan/change_list_union.h"
#include "native/scan/snapshot_map.h"
#include "test/native/chunks.h"
#include "test/native/pool.h"
#include "test/native/random_seed.h"
#include "test/native/status_assertions.h"

namespace blockdelta {
namespace {

constexpr uint64_t kBlock = 4096;
constexpr uint64_t kSize = 4 << 20;

// Takes a snapshot of a volume's file; whether that worked.
bool Take(const std::string& volume, const std::string& snapshot) {
  const NewSnapshotFile member = {
      volume, {snapshot + ".tmp", snapshot}, std::nullopt, std::nullopt};
  Result<TakenSnapshots> outcome = TakeSnapshots({member});
  EXPECT_OK(outcome);
  return outcome.ok();
}

// Expects every byte that differs (from zero, if there is no base) to be in a range.
void CheckCovers(const std::vector<test::Range>& ranges, const std::vector<uint8_t>& target,
                 const std::vector<uint8_t>& base) {
  size_t at = 0;
  const auto same_up_to = [&](uint64_t end) {
    for (; at < end; at++) {
      if (target[at] == (at < base.size() ? base[at] : 0)) continue;
      ADD_FAILURE() << "missed byte " << at;
      return false;
    }
    return true;
  };
  for (const test::Range& range : ranges) {
    if (!same_up_to(range.offset)) return;
    at = range.offset + range.size;
  }
  same_up_to(target.size());
}

// Writes, zeros, holes and preallocations at random; only writes if `only_writes`.
class Churn {
 public:
  Churn(std::string path, uint64_t seed, bool only_writes = false)
      : path_(std::move(path)), random_(seed), only_writes_(only_writes) {}

  uint64_t Below(uint64_t limit) {
    return std::uniform_int_distribution<uint64_t>(0, limit - 1)(random_);
  }

  void Step() {
    const uint64_t block = Below(kSize / kBlock);
    const uint64_t count = std::min(1 + Below(8), kSize / kBlock - block);
    const auto fill = static_cast<uint8_t>(Below(4) == 0 ? 0 : random_());
    switch (only_writes_ ? 6 : Below(6)) {
      case 0:
        return Allocate(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, block, count);
      case 1:
        return Allocate(FALLOC_FL_ZERO_RANGE, block, count);
      case 2:
        return Allocate(0, block, count);
      default:
        test::WriteBytes(path_, block * kBlock, std::vector<uint8_t>(count * kBlock, fill));
    }
  }

 private:
  // Not every file system does every kind.
  void Allocate(int mode, uint64_t block, uint64_t count) {
    ASSERT_VALUE(fd, OpenPath(path_, O_RDWR));
    static_cast<void>(fallocate(fd.get(), mode, static_cast<off_t>(block * kBlock),
                                static_cast<off_t>(count * kBlock)));
  }

  const std::string path_;
  std::mt19937_64 random_;
  const bool only_writes_;
};

Result<FillOutcome> FillOnce(const SnapshotIdentity& target,
                             const std::optional<SnapshotIdentity>& base) {
  std::vector<uint8_t> buffer(1 << 20);
  return FillFromFiles(target, base, {0, 0, 100'000, 8192, 1 << 20, false},
                       Span<uint8_t>(buffer.data(), buffer.size()));
}

FillLimits WideLimits() { return {0, 0, 1000, 1000, 1000, false}; }

std::vector<test::Range> ScanFiles(const SnapshotIdentity& target,
                                   const std::optional<SnapshotIdentity>& base,
                                   const test::NextLimits& limits) {
  const test::Call call = [&](const FillLimits& each, Span<uint8_t> buffer) {
    return FillFromFiles(target, base, each, buffer);
  };
  const test::Scan scan = test::RunScan(call, target.size_bytes, 0, 1 << 18, limits);
  EXPECT_TRUE(scan.complete);
  return scan.ranges;
}

// Takes CAP_SYS_ADMIN, which a search of btrfs trees needs, from this thread while it lives.
class WithoutTreeSearch {
 public:
  explicit WithoutTreeSearch(bool is_active) : is_active_(is_active) {
    if (is_active_) Set(false);
  }
  ~WithoutTreeSearch() {
    if (is_active_) Set(true);
  }

 private:
  static void Set(bool is_effective) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {};
    EXPECT_EQ(syscall(SYS_capget, &header, data), 0);
    data[0].effective &= ~(1u << CAP_SYS_ADMIN);
    if (is_effective) data[0].effective |= 1u << CAP_SYS_ADMIN;
    EXPECT_EQ(syscall(SYS_capset, &header, data), 0);
  }

  const bool is_active_;
};

struct RandomVolumeCase {
  const char* name;
  const char* kind;
  const char* mount_options;
  const char* mkfs_options = "";
  // btrfs stops compressing a file in which anything was ever preallocated.
  bool only_writes = false;
  bool searches_trees = true;
};

class RandomVolumeScanTest : public test::InPool,
                             public testing::WithParamInterface<RandomVolumeCase> {
 protected:
  RandomVolumeScanTest()
      : InPool(GetParam().kind, GetParam().mount_options, GetParam().mkfs_options) {}
};
INSTANTIATE_TEST_SUITE_P(
    , RandomVolumeScanTest,
    testing::Values(RandomVolumeCase{"xfs", "xfs", ""}, RandomVolumeCase{"btrfs", "btrfs", ""},
                    RandomVolumeCase{"btrfs_by_fiemap", "btrfs", "", "", false, false},
                    RandomVolumeCase{"nodatacow_btrfs", "btrfs", "nodatacow"},
                    RandomVolumeCase{"explicit_holes_btrfs", "btrfs", "", "-O ^no-holes"},
                    RandomVolumeCase{"compressed_btrfs", "btrfs", "compress-force=zstd"},
                    RandomVolumeCase{"only_compressed_btrfs", "btrfs", "compress-force=zstd", "",
                                     true},
                    RandomVolumeCase{"only_compressed_btrfs_by_fiemap", "btrfs",
                                     "compress-force=zstd", "", true, false}),
    [](const testing::TestParamInfo<RandomVolumeCase>& info) {
      return std::string(info.param.name);
    });

TEST_P(RandomVolumeScanTest, MissesNoDifferingByte) {
  const std::string volume = At("volume");
  EXPECT_OK(CreateSparseFile({volume + ".tmp", volume}, kSize));
  Churn churn(volume, test::Seed(), GetParam().only_writes);
  const auto limits = [&churn] {
    return FillLimits{0, 0, 1 + churn.Below(50), 1 + churn.Below(20), 1 + churn.Below(60), true};
  };
  const int rounds = test::IsNightly() ? 200 : 12;
  std::string base;
  for (int round = 0; round < rounds; round++) {
    for (uint64_t i = churn.Below(60); i > 0; i--) churn.Step();
    const std::string target = At("snapshot-" + std::to_string(round));
    if (!Take(volume, target)) return;
    const std::vector<uint8_t> bytes = test::ReadBytes(target);
    const WithoutTreeSearch without(!GetParam().searches_trees);
    CheckCovers(ScanFiles(test::IdentityOf(target), std::nullopt, limits), bytes, {});
    if (!base.empty()) {
      CheckCovers(ScanFiles(test::IdentityOf(target), test::IdentityOf(base), limits), bytes,
                  test::ReadBytes(base));
    }
    // Some bases get deleted, so that their blocks are used again.
    if (!base.empty() && churn.Below(2) == 0) {
      EXPECT_OK(RemoveFile(base));
    }
    base = target;
  }
}

// A volume, a snapshot of it, and another after its first block was written.
struct TwoSnapshots {
  explicit TwoSnapshots(const test::Pool& pool) : base(pool.At("base")), target(pool.At("target")) {
    const std::string volume = pool.At("volume");
    test::WriteBytes(volume, 0, std::vector<uint8_t>(8 * kBlock, 1));
    Take(volume, base);
    test::WriteBytes(volume, 0, std::vector<uint8_t>(kBlock, 2));
    Take(volume, target);
  }
  std::string base;
  std::string target;
};

class FileScanTest : public test::InXfs {};

TEST_F(FileScanTest, ReportsWhatATargetHasBeyondTheEndOfItsBase) {
  const TwoSnapshots pair(*pool_);
  const std::string grown = At("grown");
  test::WriteBytes(At("volume"), 12 * kBlock, std::vector<uint8_t>(kBlock, 3));
  Take(At("volume"), grown);
  ASSERT_VALUE(outcome, FillOnce(test::IdentityOf(grown), test::IdentityOf(pair.target)));
  EXPECT_TRUE(outcome.done && outcome.entry_bytes == kBlock);
}

TEST(FileScanOnBtrfsTest, ReportsOnlyWhatChangedInsideCompressedExtents) {
  const auto pool = test::Pool::Make("btrfs", "compress-force=zstd");
  if (pool == nullptr) return;
  const std::string volume = pool->At("volume");
  test::WriteBytes(volume, 0, std::vector<uint8_t>(kSize, 1));
  const std::string base = pool->At("base");
  Take(volume, base);
  // In the middle of an extent, and over all of another.
  test::WriteBytes(volume, kBlock, std::vector<uint8_t>(2 * kBlock, 2));
  test::WriteBytes(volume, 1 << 20, std::vector<uint8_t>(128 << 10, 3));
  const std::string target = pool->At("target");
  Take(volume, target);
  const auto scan = [&] {
    return ScanFiles(test::IdentityOf(target), test::IdentityOf(base), WideLimits);
  };
  const std::vector<test::Range> changed = {{kBlock, 2 * kBlock}, {1 << 20, 128 << 10}};
  EXPECT_TRUE(scan() == changed);
  const WithoutTreeSearch without(true);
  CheckCovers(scan(), test::ReadBytes(target), test::ReadBytes(base));
}

TEST(FileScanOnBtrfsTest, SearchesTheTreeForASnapshotOfThisMoment) {
  const auto pool = test::Pool::Make("btrfs", "commit=300");
  if (pool == nullptr) return;
  const TwoSnapshots pair(*pool);
  ASSERT_VALUE(file, SnapshotFile::Open(test::IdentityOf(pair.target)));
  ASSERT_VALUE(addresses, AddressFence::ForOne(file));
  ASSERT_VALUE(map, SnapshotMap::Open(file, true));
  MapFence fence(&addresses, &map, nullptr);
  EXPECT_OK(fence.Raise());
  EXPECT_NE(map.tree(), nullptr);
  Result<bool> holds = fence.Holds();
  EXPECT_TRUE(holds.ok() && *holds);
  // An item that covers what another item covered, as after a defragmentation.
  EXPECT_TRUE(test::RunCommand("btrfs filesystem defragment -f -czstd " + pair.target +
                               " && btrfs filesystem sync " + pool->mount_point()));
  holds = fence.Holds();
  EXPECT_TRUE(holds.ok() && !*holds);
  EXPECT_OK(fence.Raise());
  EXPECT_EQ(map.tree(), nullptr);
}

class FileScanRefusalTest : public test::InEachPool {};
INSTANTIATE_TEST_SUITE_P(, FileScanRefusalTest, testing::Values("xfs", "btrfs"), test::KindOf);

TEST_P(FileScanRefusalTest, RefusesSnapshotsThatHaveChanged) {
  const TwoSnapshots pair(*pool_);
  const SnapshotIdentity target = test::IdentityOf(pair.target);
  const SnapshotIdentity base = test::IdentityOf(pair.base);
  ASSERT_VALUE(outcome, FillOnce(target, base));
  EXPECT_TRUE(outcome.done && outcome.entry_bytes == kBlock);
  SnapshotIdentity other = target;
  other.inode++;
  EXPECT_CODE(FillOnce(other, base), "SCAN_REPLACED");
  EXPECT_CODE(FillOnce(target, other), "SCAN_REPLACED");
  other = base;
  other.size_bytes++;
  EXPECT_CODE(FillOnce(target, other), "SCAN_REPLACED");
  EXPECT_CODE(FillOnce(other, std::nullopt), "SCAN_REPLACED");
  other = base;
  other.path += "-gone";
  EXPECT_CODE(FillOnce(target, other), "SCAN_REPLACED");
  for (const std::string& path : {pair.base, pair.target}) {
    EXPECT_OK(test::SetImmutable(path, false));
    EXPECT_CODE(FillOnce(target, base), "SCAN_MUTABLE");
    EXPECT_OK(test::SetImmutable(path, true));
  }
  EXPECT_OK(FillOnce(target, base));
}

// Root clears the flag and sets it again: the file may have changed meanwhile.
void Touch(const std::string& path) {
  // Change times of older kernels have the grain of the timer, 10 ms at most.
  SleepMs(20);
  EXPECT_OK(test::SetImmutable(path, false));
  EXPECT_OK(test::SetImmutable(path, true));
}

TEST_F(FileScanTest, CountsAFileAsChangedWhenItsImmutableFlagWasClearedAndSetAgain) {
  const TwoSnapshots pair(*pool_);
  ASSERT_VALUE(file, SnapshotFile::Open(test::IdentityOf(pair.base)));
  EXPECT_OK(file.CheckUnchanged());
  Touch(pair.base);
  EXPECT_CODE(file.CheckUnchanged(), "SCAN_MUTABLE");
}

TEST(FileScanOnBtrfsTest, TrustsAddressesOfBtrfsUntilATransactionIsCommitted) {
  const auto pool = test::Pool::Make("btrfs", "commit=3600");
  if (pool == nullptr) return;
  const TwoSnapshots snapshots(*pool);
  Result<SnapshotFile> target = SnapshotFile::Open(test::IdentityOf(snapshots.target));
  Result<SnapshotFile> base = SnapshotFile::Open(test::IdentityOf(snapshots.base));
  ASSERT_OK(target);
  ASSERT_OK(base);
  Result<AddressFence> fence = AddressFence::ForPair(*target, *base);
  ASSERT_OK(fence);
  ASSERT_OK(fence->Raise());
  EXPECT_TRUE(*fence->Holds());
  // The second one belongs to the transaction after the one that was running.
  for (const char* name : {"first", "second"}) {
    test::WriteBytes(pool->At(name), 0, {1});
    EXPECT_TRUE(test::RunCommand("sync -f " + pool->mount_point()));
  }
  EXPECT_FALSE(*fence->Holds());
}

TEST_F(FileScanTest, RefusesADeltaOnAnUnsupportedFileSystemOrAcrossTwoAndNamesTheType) {
  const auto btrfs = test::Pool::Make("btrfs");
  const auto ext4 = test::Pool::Make("ext4");
  if (btrfs == nullptr || ext4 == nullptr) return;
  const TwoSnapshots here(*pool_);
  const TwoSnapshots there(*btrfs);
  EXPECT_CODE(FillOnce(test::IdentityOf(here.target), test::IdentityOf(there.base)),
              "SCAN_UNSUPPORTED");
  for (const char* name : {"base", "target"}) {
    test::WriteBytes(ext4->At(name), 0, std::vector<uint8_t>(kBlock, 1));
    EXPECT_OK(test::SetImmutable(ext4->At(name), true));
  }
  Result<FillOutcome> outcome =
      FillOnce(test::IdentityOf(ext4->At("target")), test::IdentityOf(ext4->At("base")));
  EXPECT_CODE(outcome, "SCAN_UNSUPPORTED");
  EXPECT_NE(test::MessageOf(outcome).find("0xef53"), std::string::npos);
}

// Moves the extents of two files for as long as it lives; the random bytes cannot be compressed, so
// they stay plain data at a new address each time.
class Mover {
 public:
  explicit Mover(const test::Pool& pool, const TwoSnapshots& pair)
      : thread_([this, mount = pool.mount_point(), pair] {
          while (!stop_) {
            test::RunCommand("btrfs filesystem defragment -f -czstd " + pair.base + " " +
                             pair.target + "; btrfs balance start -d " + mount);
          }
        }) {}
  ~Mover() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

TEST(FileScanOnBtrfsTest, MissesNoByteWhileBtrfsMovesTheExtentsOfBothSnapshots) {
  const auto pool = test::Pool::Make("btrfs");
  if (pool == nullptr) return;
  std::mt19937_64 random(test::Seed());
  std::vector<uint8_t> bytes(kSize);
  const auto shuffle = [&](uint64_t step) {
    for (uint64_t at = 0; at < bytes.size(); at += step) bytes[at] = static_cast<uint8_t>(random());
  };
  TwoSnapshots pair(*pool);
  const std::string volume = pool->At("other-volume");
  for (std::string* path : {&pair.base, &pair.target}) {
    shuffle(path == &pair.base ? 1 : 3 * kBlock);
    test::WriteBytes(volume, 0, bytes);
    *path = *path + "-other";
    if (!Take(volume, *path)) return;
  }
  const std::vector<uint8_t> base = test::ReadBytes(pair.base);
  const std::vector<uint8_t> target = test::ReadBytes(pair.target);
  const Mover mover(*pool, pair);
  const uint64_t end = ClockNs(CLOCK_MONOTONIC) + (test::IsNightly() ? 60 : 4) * 1'000'000'000ull;
  while (ClockNs(CLOCK_MONOTONIC) < end) {
    CheckCovers(ScanFiles(test::IdentityOf(pair.target), test::IdentityOf(pair.base), WideLimits),
                target, base);
  }
}

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

ChangeListRequest UnionOf(const std::vector<std::string>& snapshots, size_t base, size_t target) {
  ChangeListRequest request;
  for (size_t i = base + 1; i <= target; i++) request.paths.push_back(DeltaOf(snapshots[i]));
  request.target_id = ToList(snapshots[target]).id;
  request.base_id = ToList(snapshots[base]).id;
  request.size_bytes = kSize;
  request.target = test::IdentityOf(snapshots[target]);
  request.base = test::IdentityOf(snapshots[base]);
  return request;
}

class BuildChangeListTest : public test::InEachPool {
 protected:
  bool is_xfs() const { return std::string(GetParam()) == "xfs"; }
};
INSTANTIATE_TEST_SUITE_P(, BuildChangeListTest, testing::Values("xfs", "btrfs"), test::KindOf);

TEST_P(BuildChangeListTest, MissesNoDifferingByteBetweenAnyTwoSnapshotsOfAChain) {
  const std::string volume = At("volume");
  EXPECT_OK(CreateSparseFile({volume + ".tmp", volume}, kSize));
  Churn churn(volume, test::Seed());
  std::vector<std::string> snapshots;
  std::vector<std::vector<uint8_t>> bytes;
  int steps = 0;
  const int rounds = test::IsNightly() ? 40 : 8;
  for (int round = 0; round < rounds; round++) {
    for (uint64_t i = churn.Below(60); i > 0; i--) churn.Step();
    snapshots.push_back(At("snapshot-" + std::to_string(round)));
    const std::string& target = snapshots.back();
    ASSERT_TRUE(Take(volume, target));
    bytes.push_back(test::ReadBytes(target));
    BuildChangeListRequest request = {ToList(target), std::nullopt, NamesOf(AllocatedOf(target)),
                                      std::nullopt,   std::nullopt, 30};
    if (is_xfs()) request.map_names = NamesOf(MapOf(target));
    if (round > 0) {
      request.base = ToList(snapshots[snapshots.size() - 2]);
      request.names = NamesOf(DeltaOf(target));
      if (is_xfs()) request.base_map = MapOf(snapshots[snapshots.size() - 2]);
    }
    ASSERT_VALUE(built, Build(request));
    steps += built;
    if (round == 0) {
      ChangeListRequest allocated;
      allocated.paths = {AllocatedOf(target)};
      allocated.target_id = ToList(target).id;
      allocated.size_bytes = kSize;
      allocated.target = test::IdentityOf(target);
      const std::vector<test::Range> ranges = test::ScanLists(allocated);
      EXPECT_EQ(ranges, ScanFiles(test::IdentityOf(target), std::nullopt, WideLimits));
      CheckCovers(ranges, bytes[0], {});
      continue;
    }
    // A step is exactly what a direct scan finds, also with the stored map in place of a scan.
    const std::string& base = snapshots[snapshots.size() - 2];
    const size_t last = snapshots.size() - 1;
    if (is_xfs()) {
      EXPECT_EQ(test::ScanLists(UnionOf(snapshots, last - 1, last)),
                ScanFiles(test::IdentityOf(target), test::IdentityOf(base), WideLimits));
    }
    for (size_t from = 0; from < last; from++) {
      CheckCovers(test::ScanLists(UnionOf(snapshots, from, last)), bytes[last], bytes[from]);
    }
  }
  EXPECT_GT(steps, rounds);
}

// Three snapshots of a volume whose blocks are written one after the other.
std::vector<std::string> ThreeSnapshots(const test::Pool& pool) {
  const std::string volume = pool.At("volume");
  EXPECT_OK(CreateSparseFile({volume + ".tmp", volume}, kSize));
  std::vector<std::string> snapshots;
  for (uint8_t i = 0; i < 3; i++) {
    for (uint64_t block = i; block < 200; block += 3) {
      test::WriteBytes(volume, block * kBlock, std::vector<uint8_t>(kBlock, i + 1));
    }
    snapshots.push_back(pool.At("snapshot-" + std::to_string(i)));
    EXPECT_TRUE(Take(volume, snapshots.back()));
  }
  return snapshots;
}

TEST_P(BuildChangeListTest, RefusesASnapshotThatIsTouchedBetweenTwoSteps) {
  const std::vector<std::string> snapshots = ThreeSnapshots(*pool_);
  for (const std::string& touched : {snapshots[0], snapshots[1]}) {
    const BuildChangeListRequest request = DeltaRequest(snapshots[1], snapshots[0]);
    ASSERT_VALUE(first, BuildChangeList(request, std::nullopt));
    ASSERT_FALSE(first.done);
    Touch(touched);
    EXPECT_CODE(BuildChangeList(request, first.progress), "SCAN_MUTABLE");
  }
  EXPECT_OK(Build(DeltaRequest(snapshots[1], snapshots[0])));
}

TEST_P(BuildChangeListTest, RefusesAListOfAFileThatWasTouchedAfterIt) {
  const std::vector<std::string> snapshots = ThreeSnapshots(*pool_);
  const auto code = [&](size_t base, size_t target) {
    return test::CodeOfLists(UnionOf(snapshots, base, target));
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
