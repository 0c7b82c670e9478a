// Scans and change lists of real snapshot files: compared with their bytes and with each other, and
// refused when they prove nothing.
#include "native/scan/file_scan.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <optional>
#include <random>

#include "native/device/take_snapshots.h"
#include "native/scan/address_fence.h"
#include "native/scan/build_change_list.h"
#include "native/scan/snapshot_map.h"
#include "test/native/chunks.h"
#include "test/native/pool.h"
#include "test/native/random_seed.h"
#include "test/native/status_assertions.h"

namespace blockdelta::test {
namespace {

constexpr uint64_t kBlock = 4096;
constexpr uint64_t kSize = 4 << 20;

// Takes a snapshot of a volume's file; whether that worked.
bool Take(const std::string& volume, const std::string& snapshot) {
  Result<TakenSnapshots> outcome = TakeSnapshots({{volume, Names(snapshot), {}, {}}});
  EXPECT_OK(outcome);
  return outcome.ok();
}

// Expects every byte that differs (from zero, if there is no base) to be in a range.
void CheckCovers(const Result<std::vector<Range>>& ranges, const std::vector<uint8_t>& target,
                 const std::vector<uint8_t>& base) {
  ASSERT_OK(ranges);
  size_t at = 0;
  const auto same_up_to = [&](uint64_t end) {
    for (; at < end; at++) {
      if (target[at] == (at < base.size() ? base[at] : 0)) continue;
      ADD_FAILURE() << "missed byte " << at;
      return false;
    }
    return true;
  };
  for (const Range& range : *ranges) {
    if (!same_up_to(range.offset)) return;
    at = range.offset + range.size;
  }
  same_up_to(target.size());
}

FillLimits WideLimits() { return {0, 0, 1000, 1000, 1000, false}; }

Result<std::vector<Range>> ScanFiles(const SnapshotIdentity& target,
                                     const std::optional<SnapshotIdentity>& base,
                                     const NextLimits& limits = WideLimits) {
  const auto fill = [&](const FillLimits& each, Span<uint8_t> buffer) {
    return FillFromFiles(target, base, each, buffer);
  };
  Result<Scan> scan = RunScan(fill, target.size_bytes, 0, 1 << 18, limits);
  RETURN_IF_ERROR(scan);
  return scan->ranges;
}

// Takes CAP_SYS_ADMIN, which a search of btrfs trees needs, from this thread while it lives.
class WithoutTreeSearch {
 public:
  WithoutTreeSearch() { Set(false); }
  ~WithoutTreeSearch() { Set(true); }

 private:
  static void Set(bool is_effective) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {};
    EXPECT_EQ(syscall(SYS_capget, &header, data), 0);
    data[0].effective &= ~(1u << CAP_SYS_ADMIN);
    if (is_effective) data[0].effective |= 1u << CAP_SYS_ADMIN;
    EXPECT_EQ(syscall(SYS_capset, &header, data), 0);
  }
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

class RandomVolumeScanTest : public InPoolOf<RandomVolumeCase> {};
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
    NameOf<RandomVolumeCase>);

TEST_P(RandomVolumeScanTest, MissesNoDifferingByte) {
  const std::string volume = MakeFile(At("volume"), kSize);
  RandomWriter writer(volume, Seed(), GetParam().only_writes);
  const auto limits = [&writer] {
    return FillLimits{0, 0, 1 + writer.Below(50), 1 + writer.Below(20), 1 + writer.Below(60), true};
  };
  const int rounds = IsNightly() ? 200 : 12;
  std::string base;
  for (int round = 0; round < rounds; round++) {
    for (uint64_t i = writer.Below(60); i > 0; i--) writer.Step();
    const std::string target = At("snapshot-" + std::to_string(round));
    if (!Take(volume, target)) return;
    const std::vector<uint8_t> bytes = ReadBytes(target);
    std::optional<WithoutTreeSearch> without;
    if (!GetParam().searches_trees) without.emplace();
    CheckCovers(ScanFiles(IdentityOf(target), std::nullopt, limits), bytes, {});
    if (!base.empty()) {
      CheckCovers(ScanFiles(IdentityOf(target), IdentityOf(base), limits), bytes, ReadBytes(base));
    }
    // Some bases get deleted, so that their blocks are used again.
    if (!base.empty() && writer.Below(2) == 0) {
      EXPECT_OK(RemoveFile(base));
    }
    base = target;
  }
}

// A volume, a snapshot of it, and another after its first block was written.
struct TwoSnapshots {
  explicit TwoSnapshots(const Pool& pool) : base(pool.At("base")), target(pool.At("target")) {
    const std::string volume = pool.At("volume");
    WriteBytes(volume, 0, std::vector<uint8_t>(8 * kBlock, 1));
    Take(volume, base);
    WriteBytes(volume, 0, std::vector<uint8_t>(kBlock, 2));
    Take(volume, target);
  }
  std::string base;
  std::string target;
};

class FileScanTest : public InXfs {};

TEST_F(FileScanTest, ReportsWhatATargetHasBeyondTheEndOfItsBase) {
  const TwoSnapshots pair(pool_);
  const std::string grown = At("grown");
  WriteBytes(At("volume"), 12 * kBlock, std::vector<uint8_t>(kBlock, 3));
  Take(At("volume"), grown);
  ASSERT_VALUE(ranges, ScanFiles(IdentityOf(grown), IdentityOf(pair.target)));
  EXPECT_EQ(Text(ranges), Text({{12 * kBlock, kBlock}}));
}

TEST(FileScanOnBtrfsTest, ReportsOnlyWhatChangedInsideCompressedExtents) {
  const Pool pool("btrfs", "compress-force=zstd");
  const std::string volume = pool.At("volume");
  WriteBytes(volume, 0, std::vector<uint8_t>(kSize, 1));
  const std::string base = pool.At("base");
  Take(volume, base);
  // In the middle of an extent, and over all of another.
  WriteBytes(volume, kBlock, std::vector<uint8_t>(2 * kBlock, 2));
  WriteBytes(volume, 1 << 20, std::vector<uint8_t>(128 << 10, 3));
  const std::string target = pool.At("target");
  Take(volume, target);
  const auto scan = [&] { return ValueOf(ScanFiles(IdentityOf(target), IdentityOf(base))); };
  const std::vector<Range> changed = {{kBlock, 2 * kBlock}, {1 << 20, 128 << 10}};
  EXPECT_TRUE(scan() == changed);
  const WithoutTreeSearch without;
  CheckCovers(scan(), ReadBytes(target), ReadBytes(base));
}

TEST(FileScanOnBtrfsTest, SearchesTheTreeForASnapshotOfThisMoment) {
  const Pool pool("btrfs", "commit=300");
  const TwoSnapshots pair(pool);
  ASSERT_VALUE(file, SnapshotFile::Open(IdentityOf(pair.target)));
  ASSERT_VALUE(addresses, AddressFence::ForOne(file));
  ASSERT_VALUE(map, SnapshotMap::Open(file, true));
  MapFence fence(&addresses, &map, nullptr);
  EXPECT_OK(fence.Raise());
  EXPECT_NE(map.tree(), nullptr);
  EXPECT_TRUE(ValueOf(fence.Holds()));
  // An item that covers what another item covered, as after a defragmentation.
  EXPECT_TRUE(RunCommand("btrfs filesystem defragment -f -czstd " + pair.target +
                         " && btrfs filesystem sync " + pool.mount_point()));
  EXPECT_FALSE(ValueOf(fence.Holds()));
  EXPECT_OK(fence.Raise());
  EXPECT_EQ(map.tree(), nullptr);
}

class FileScanRefusalTest : public InEachPool {};
INSTANTIATE_TEST_SUITE_P(, FileScanRefusalTest, testing::Values("xfs", "btrfs"), KindOf);

TEST_P(FileScanRefusalTest, RefusesSnapshotsThatHaveChanged) {
  const TwoSnapshots pair(pool_);
  const SnapshotIdentity target = IdentityOf(pair.target);
  const SnapshotIdentity base = IdentityOf(pair.base);
  ASSERT_VALUE(ranges, ScanFiles(target, base));
  EXPECT_EQ(Text(ranges), Text({{0, kBlock}}));
  const SnapshotIdentity other_file = With(target, [](auto* file) { file->inode++; });
  EXPECT_CODE(ScanFiles(other_file, base), "SCAN_REPLACED");
  EXPECT_CODE(ScanFiles(target, other_file), "SCAN_REPLACED");
  const SnapshotIdentity larger = With(base, [](auto* file) { file->size_bytes++; });
  EXPECT_CODE(ScanFiles(target, larger), "SCAN_REPLACED");
  EXPECT_CODE(ScanFiles(larger, std::nullopt), "SCAN_REPLACED");
  const SnapshotIdentity gone = With(base, [](auto* file) { file->path += "-gone"; });
  EXPECT_CODE(ScanFiles(target, gone), "SCAN_REPLACED");
  for (const std::string& path : {pair.base, pair.target}) {
    EXPECT_OK(SetImmutable(path, false));
    EXPECT_CODE(ScanFiles(target, base), "SCAN_MUTABLE");
    EXPECT_OK(SetImmutable(path, true));
  }
  EXPECT_OK(ScanFiles(target, base));
}

// Root clears the flag and sets it again: the file may have changed meanwhile.
void Touch(const std::string& path) {
  // Change times of older kernels have the grain of the timer, 10 ms at most.
  SleepMs(20);
  EXPECT_OK(SetImmutable(path, false));
  EXPECT_OK(SetImmutable(path, true));
}

TEST_F(FileScanTest, CountsAFileAsChangedWhenItsImmutableFlagWasClearedAndSetAgain) {
  const TwoSnapshots pair(pool_);
  ASSERT_VALUE(file, SnapshotFile::Open(IdentityOf(pair.base)));
  EXPECT_OK(file.CheckUnchanged());
  Touch(pair.base);
  EXPECT_CODE(file.CheckUnchanged(), "SCAN_MUTABLE");
}

TEST(FileScanOnBtrfsTest, TrustsAddressesOfBtrfsUntilATransactionIsCommitted) {
  const Pool pool("btrfs", "commit=3600");
  const TwoSnapshots snapshots(pool);
  ASSERT_VALUE(target, SnapshotFile::Open(IdentityOf(snapshots.target)));
  ASSERT_VALUE(base, SnapshotFile::Open(IdentityOf(snapshots.base)));
  ASSERT_VALUE(fence, AddressFence::ForPair(target, base));
  ASSERT_OK(fence.Raise());
  EXPECT_TRUE(ValueOf(fence.Holds()));
  // The second one belongs to the transaction after the one that was running.
  for (const char* name : {"first", "second"}) {
    WriteBytes(pool.At(name), 0, {1});
    EXPECT_TRUE(RunCommand("sync -f " + pool.mount_point()));
  }
  EXPECT_FALSE(ValueOf(fence.Holds()));
}

TEST_F(FileScanTest, RefusesADeltaOnAnUnsupportedFileSystemOrAcrossTwoAndNamesTheType) {
  const Pool btrfs("btrfs");
  const Pool ext4("ext4");
  const TwoSnapshots here(pool_);
  const TwoSnapshots there(btrfs);
  EXPECT_CODE(ScanFiles(IdentityOf(here.target), IdentityOf(there.base)), "SCAN_UNSUPPORTED");
  for (const char* name : {"base", "target"}) {
    WriteBytes(ext4.At(name), 0, std::vector<uint8_t>(kBlock, 1));
    EXPECT_OK(SetImmutable(ext4.At(name), true));
  }
  Result<std::vector<Range>> outcome =
      ScanFiles(IdentityOf(ext4.At("target")), IdentityOf(ext4.At("base")));
  EXPECT_CODE(outcome, "SCAN_UNSUPPORTED");
  EXPECT_NE(MessageOf(outcome).find("0xef53"), std::string::npos);
}

TEST(FileScanOnBtrfsTest, MissesNoByteWhileBtrfsMovesTheExtentsOfBothSnapshots) {
  const Pool pool("btrfs");
  std::mt19937_64 random(Seed());
  std::vector<uint8_t> bytes(kSize);
  const auto shuffle = [&](uint64_t step) {
    for (uint64_t at = 0; at < bytes.size(); at += step) bytes[at] = static_cast<uint8_t>(random());
  };
  TwoSnapshots pair(pool);
  const std::string volume = pool.At("other-volume");
  for (std::string* path : {&pair.base, &pair.target}) {
    shuffle(path == &pair.base ? 1 : 3 * kBlock);
    WriteBytes(volume, 0, bytes);
    *path = *path + "-other";
    if (!Take(volume, *path)) return;
  }
  const std::vector<uint8_t> base = ReadBytes(pair.base);
  const std::vector<uint8_t> target = ReadBytes(pair.target);
  // The random bytes cannot be compressed, so they stay plain data at a new address each time.
  const Background mover([&] {
    RunCommand("btrfs filesystem defragment -f -czstd " + pair.base + " " + pair.target +
               "; btrfs balance start -d " + pool.mount_point());
  });
  const uint64_t end = ClockNs(CLOCK_MONOTONIC) + (IsNightly() ? 20 : 4) * 1'000'000'000ull;
  while (ClockNs(CLOCK_MONOTONIC) < end) {
    CheckCovers(ScanFiles(IdentityOf(pair.target), IdentityOf(pair.base)), target, base);
  }
}

SnapshotToList ToList(const std::string& path) {
  return {path.substr(path.rfind('/') + 1), IdentityOf(path)};
}

ChangeListNames ListNames(const std::string& path) { return {path + ".tmp", path}; }

// The list of a snapshot is beside it.
std::string DeltaOf(const std::string& path) { return path + ".delta"; }
std::string AllocatedOf(const std::string& path) { return path + ".allocated"; }
std::string MapOf(const std::string& path) { return path + ".map"; }

BuildChangeListRequest DeltaRequest(const std::string& target, const std::string& base) {
  return {ToList(target), ToList(base), ListNames(DeltaOf(target)), std::nullopt, std::nullopt, 40};
}

// Runs all steps. Returns how many there were, or the failure of one.
Result<int> Build(const BuildChangeListRequest& request) {
  std::optional<BuildProgress> progress;
  for (int steps = 1;; steps++) {
    Result<BuildOutcome> outcome = BuildChangeList(request, progress);
    RETURN_IF_ERROR(outcome);
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
  request.target = IdentityOf(snapshots[target]);
  request.base = IdentityOf(snapshots[base]);
  return request;
}

class BuildChangeListTest : public InEachPool {
 protected:
  bool is_xfs() const { return std::string(GetParam()) == "xfs"; }
};
INSTANTIATE_TEST_SUITE_P(, BuildChangeListTest, testing::Values("xfs", "btrfs"), KindOf);

TEST_P(BuildChangeListTest, MissesNoDifferingByteBetweenAnyTwoSnapshotsOfAChain) {
  const std::string volume = MakeFile(At("volume"), kSize);
  RandomWriter writer(volume, Seed());
  std::vector<std::string> snapshots;
  std::vector<std::vector<uint8_t>> bytes;
  int steps = 0;
  const int rounds = IsNightly() ? 40 : 8;
  for (int round = 0; round < rounds; round++) {
    for (uint64_t i = writer.Below(60); i > 0; i--) writer.Step();
    snapshots.push_back(At("snapshot-" + std::to_string(round)));
    const std::string& target = snapshots.back();
    ASSERT_TRUE(Take(volume, target));
    bytes.push_back(ReadBytes(target));
    BuildChangeListRequest request = {ToList(target), std::nullopt, ListNames(AllocatedOf(target)),
                                      std::nullopt,   std::nullopt, 30};
    if (is_xfs()) request.map_names = ListNames(MapOf(target));
    if (round > 0) {
      request.base = ToList(snapshots[snapshots.size() - 2]);
      request.names = ListNames(DeltaOf(target));
      if (is_xfs()) request.base_map = MapOf(snapshots[snapshots.size() - 2]);
    }
    ASSERT_VALUE(built, Build(request));
    steps += built;
    if (round == 0) {
      ChangeListRequest allocated;
      allocated.paths = {AllocatedOf(target)};
      allocated.target_id = ToList(target).id;
      allocated.size_bytes = kSize;
      allocated.target = IdentityOf(target);
      ASSERT_VALUE(ranges, ScanLists(allocated));
      EXPECT_EQ(ranges, ValueOf(ScanFiles(IdentityOf(target), std::nullopt)));
      CheckCovers(ranges, bytes[0], {});
      continue;
    }
    // A step is exactly what a direct scan finds, also with the stored map in place of a scan.
    const std::string& base = snapshots[snapshots.size() - 2];
    const size_t last = snapshots.size() - 1;
    if (is_xfs()) {
      EXPECT_EQ(ValueOf(ScanLists(UnionOf(snapshots, last - 1, last))),
                ValueOf(ScanFiles(IdentityOf(target), IdentityOf(base))));
    }
    for (size_t from = 0; from < last; from++) {
      CheckCovers(ScanLists(UnionOf(snapshots, from, last)), bytes[last], bytes[from]);
    }
  }
  EXPECT_GT(steps, rounds);
}

// Three snapshots of a volume whose blocks are written one after the other.
std::vector<std::string> ThreeSnapshots(const Pool& pool) {
  const std::string volume = MakeFile(pool.At("volume"), kSize);
  std::vector<std::string> snapshots;
  for (uint8_t i = 0; i < 3; i++) {
    for (uint64_t block = i; block < 200; block += 3) {
      WriteBytes(volume, block * kBlock, std::vector<uint8_t>(kBlock, i + 1));
    }
    snapshots.push_back(pool.At("snapshot-" + std::to_string(i)));
    EXPECT_TRUE(Take(volume, snapshots.back()));
  }
  return snapshots;
}

TEST_P(BuildChangeListTest, RefusesASnapshotThatIsTouchedBetweenTwoSteps) {
  const std::vector<std::string> snapshots = ThreeSnapshots(pool_);
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
  const std::vector<std::string> snapshots = ThreeSnapshots(pool_);
  const auto code = [&](size_t base, size_t target) {
    return CodeOf(ScanLists(UnionOf(snapshots, base, target)));
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
  const std::vector<std::string> snapshots = ThreeSnapshots(pool_);
  BuildChangeListRequest request = DeltaRequest(snapshots[1], snapshots[0]);
  request.map_names = ListNames(MapOf(snapshots[1]));
  if (!is_xfs()) {
    EXPECT_CODE(Build(request), "SCAN_UNSUPPORTED");
    EXPECT_FALSE(Exists(MapOf(snapshots[1])));
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
}  // namespace blockdelta::test
