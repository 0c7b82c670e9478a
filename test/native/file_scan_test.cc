// Scans of real snapshot files: compared with their bytes, and refused when they prove nothing.
#include "native/scan/file_scan.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <random>
#include <thread>

#include "native/device/files.h"
#include "native/device/take_snapshots.h"
#include "native/scan/address_fence.h"
#include "native/scan/snapshot_map.h"
#include "test/native/chunks.h"
#include "test/native/churn.h"
#include "test/native/pool.h"
#include "test/native/random_seed.h"
#include "test/native/status_assertions.h"

namespace blockdelta {
namespace {

using test::CheckCovers;
using test::Churn;
using test::Take;

constexpr uint64_t kBlock = test::kChurnBlock;
constexpr uint64_t kSize = test::kChurnBytes;

Result<FillOutcome> FillOnce(const SnapshotIdentity& target,
                             const std::optional<SnapshotIdentity>& base) {
  std::vector<uint8_t> buffer(1 << 20);
  return FillFromFiles(target, base, {0, 0, 100'000, 8192, 1 << 20, false},
                       Span<uint8_t>(buffer.data(), buffer.size()));
}

test::Scan ScanFiles(const SnapshotIdentity& target, const std::optional<SnapshotIdentity>& base,
                     const test::NextLimits& limits) {
  const test::Call call = [&](const FillLimits& each, Span<uint8_t> buffer) {
    return FillFromFiles(target, base, each, buffer);
  };
  return test::RunScan(call, target.size_bytes, 0, 1 << 18, limits);
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

class RandomVolumeScanTest : public testing::TestWithParam<RandomVolumeCase> {};
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
  const auto pool =
      test::Pool::Make(GetParam().kind, GetParam().mount_options, GetParam().mkfs_options);
  if (pool == nullptr) return;
  const std::string volume = pool->At("volume");
  EXPECT_OK(CreateSparseFile({volume + ".tmp", volume}, kSize));
  Churn churn(volume, test::Seed(), GetParam().only_writes);
  const auto limits = [&churn] {
    return FillLimits{0, 0, 1 + churn.Below(50), 1 + churn.Below(20), 1 + churn.Below(60), true};
  };
  const int rounds = test::IsNightly() ? 200 : 12;
  std::string base;
  for (int round = 0; round < rounds; round++) {
    for (uint64_t i = churn.Below(60); i > 0; i--) churn.Step();
    const std::string target = pool->At("snapshot-" + std::to_string(round));
    if (!Take(volume, target)) return;
    const std::vector<uint8_t> bytes = test::ReadBytes(target);
    const WithoutTreeSearch without(!GetParam().searches_trees);
    CheckCovers(ScanFiles(test::IdentityOf(target), std::nullopt, limits), bytes, {});
    if (!base.empty()) {
      const test::Scan scan = ScanFiles(test::IdentityOf(target), test::IdentityOf(base), limits);
      CheckCovers(scan, bytes, test::ReadBytes(base));
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

TEST(FileScanTest, ReportsWhatATargetHasBeyondTheEndOfItsBase) {
  const auto pool = test::Pool::Make("xfs");
  if (pool == nullptr) return;
  const TwoSnapshots pair(*pool);
  const std::string grown = pool->At("grown");
  test::WriteBytes(pool->At("volume"), 12 * kBlock, std::vector<uint8_t>(kBlock, 3));
  Take(pool->At("volume"), grown);
  Result<FillOutcome> outcome = FillOnce(test::IdentityOf(grown), test::IdentityOf(pair.target));
  ASSERT_OK(outcome);
  EXPECT_TRUE(outcome->done && outcome->entry_bytes == kBlock);
}

TEST(FileScanTest, ReportsOnlyWhatChangedInsideCompressedExtents) {
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
  const auto limits = [] { return FillLimits{0, 0, 1000, 1000, 1000, false}; };
  const auto scan = [&] {
    return ScanFiles(test::IdentityOf(target), test::IdentityOf(base), limits);
  };
  const std::vector<test::Range> changed = {{kBlock, 2 * kBlock}, {1 << 20, 128 << 10}};
  EXPECT_TRUE(scan().ranges == changed);
  const WithoutTreeSearch without(true);
  CheckCovers(scan(), test::ReadBytes(target), test::ReadBytes(base));
}

TEST(FileScanTest, SearchesTheTreeForASnapshotOfThisMoment) {
  const auto pool = test::Pool::Make("btrfs", "commit=300");
  if (pool == nullptr) return;
  const TwoSnapshots pair(*pool);
  Result<SnapshotFile> file = SnapshotFile::Open(test::IdentityOf(pair.target));
  ASSERT_OK(file);
  Result<AddressFence> addresses = AddressFence::ForOne(*file);
  ASSERT_OK(addresses);
  Result<SnapshotMap> map = SnapshotMap::Open(*file, true);
  ASSERT_OK(map);
  MapFence fence(&*addresses, &*map, nullptr);
  EXPECT_OK(fence.Raise());
  EXPECT_NE(map->tree(), nullptr);
  Result<bool> holds = fence.Holds();
  EXPECT_TRUE(holds.ok() && *holds);
  // An item that covers what another item covered, as after a defragmentation.
  EXPECT_TRUE(test::RunCommand("btrfs filesystem defragment -f -czstd " + pair.target +
                               " && btrfs filesystem sync " + pool->mount_point()));
  holds = fence.Holds();
  EXPECT_TRUE(holds.ok() && !*holds);
  EXPECT_OK(fence.Raise());
  EXPECT_EQ(map->tree(), nullptr);
}

class FileScanRefusalTest : public test::PoolTest {};
INSTANTIATE_TEST_SUITE_P(, FileScanRefusalTest, testing::Values("xfs", "btrfs"), test::KindOf);

TEST_P(FileScanRefusalTest, RefusesSnapshotsThatHaveChanged) {
  const TwoSnapshots pair(*pool_);
  const SnapshotIdentity target = test::IdentityOf(pair.target);
  const SnapshotIdentity base = test::IdentityOf(pair.base);
  Result<FillOutcome> outcome = FillOnce(target, base);
  ASSERT_OK(outcome);
  EXPECT_TRUE(outcome->done && outcome->entry_bytes == kBlock);
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

TEST(FileScanTest, CountsAFileAsChangedWhenItsImmutableFlagWasClearedAndSetAgain) {
  const auto pool = test::Pool::Make("xfs");
  if (pool == nullptr) return;
  const TwoSnapshots pair(*pool);
  Result<SnapshotFile> file = SnapshotFile::Open(test::IdentityOf(pair.base));
  ASSERT_OK(file);
  EXPECT_OK(file->CheckUnchanged());
  // Change times of older kernels have the grain of the timer, 10 ms at most.
  SleepMs(20);
  EXPECT_OK(test::SetImmutable(pair.base, false));
  EXPECT_OK(test::SetImmutable(pair.base, true));
  EXPECT_CODE(file->CheckUnchanged(), "SCAN_MUTABLE");
}

TEST(FileScanTest, RefusesADeltaAcrossTwoFileSystems) {
  const auto xfs = test::Pool::Make("xfs");
  if (xfs == nullptr) return;
  const auto btrfs = test::Pool::Make("btrfs");
  if (btrfs == nullptr) return;
  const TwoSnapshots left(*xfs);
  const TwoSnapshots right(*btrfs);
  EXPECT_CODE(FillOnce(test::IdentityOf(left.target), test::IdentityOf(right.base)),
              "SCAN_UNSUPPORTED");
}

TEST(FileScanTest, TrustsAddressesOfBtrfsUntilATransactionIsCommitted) {
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

TEST(FileScanTest, RefusesADeltaOnAnUnsupportedFileSystemAndNamesItsType) {
  const auto pool = test::Pool::Make("ext4");
  if (pool == nullptr) return;
  for (const char* name : {"base", "target"}) {
    test::WriteBytes(pool->At(name), 0, std::vector<uint8_t>(kBlock, 1));
    EXPECT_OK(test::SetImmutable(pool->At(name), true));
  }
  Result<FillOutcome> outcome =
      FillOnce(test::IdentityOf(pool->At("target")), test::IdentityOf(pool->At("base")));
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

TEST(FileScanTest, MissesNoByteWhileBtrfsMovesTheExtentsOfBothSnapshots) {
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
    const auto limits = [] { return FillLimits{0, 0, 1000, 1000, 1000, false}; };
    CheckCovers(ScanFiles(test::IdentityOf(pair.target), test::IdentityOf(pair.base), limits),
                target, base);
  }
}

}  // namespace
}  // namespace blockdelta
