// File systems that another program has frozen, or thaws and freezes while their volumes are
// copied.
#include "native/device/standstill.h"

#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "native/device/pre_clone.h"
#include "native/device/take_snapshots.h"
#include "test/native/pool.h"
#include "test/native/status_assertions.h"

namespace blockdelta::test {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kSize = 64 * kMiB;

// fsfreeze -f or -u, which fails if it is frozen, or not.
void FsFreeze(const Volume& volume, const char* option) {
  EXPECT_TRUE(RunCommand(std::string("fsfreeze ") + option + " " + volume.mount_point()));
}

// Leaves it frozen.
bool IsFrozen(const Volume& volume) {
  const UniqueFd mount = Open(volume.mount_point(), O_RDONLY | O_DIRECTORY);
  return ioctl(mount.get(), FIFREEZE, 0) == -1 && errno == EBUSY;
}

struct Kind {
  const char* name;
  uint64_t size_bytes;
  const char* read_only;
};
const Kind kKinds[] = {
    {"ext4", kSize, "noload"}, {"xfs", 320 * kMiB, "nouuid,norecovery"}, {"btrfs", 128 * kMiB, ""}};

class StandstillTest : public InXfs {
 protected:
  Volume* MakeOf(const Kind& kind) { return Make(kind.name, kind.name, kind.size_bytes); }
};

TEST_F(StandstillTest, WhatAnotherProgramHasFrozenIsTakenAsItIsAndStaysFrozen) {
  for (const Kind& kind : kKinds) {
    SCOPED_TRACE(kind.name);
    Volume* const volume = MakeOf(kind);
    const std::string name = kind.name;
    // Not synced: the freeze writes it back.
    WriteBytes(volume->mount_point() + "/file", 0, {1, 2, 3});
    FsFreeze(*volume, "-f");
    ASSERT_VALUE(outcome, TakeSnapshots({volume->Member(name + ".snapshot")}));
    EXPECT_EQ(outcome.frozen_ns, 0u);
    EXPECT_TRUE(IsFrozen(*volume));
    EXPECT_OK(CloneVolume(volume->Member(name + ".clone"), kind.size_bytes));
    EXPECT_TRUE(IsFrozen(*volume));
    FsFreeze(*volume, "-u");
    WriteBytes(volume->mount_point() + "/file", 0, {4});
    EXPECT_TRUE(volume->Unmount());
    for (const char* const suffix : {".snapshot", ".clone"}) {
      WithMounted(At(name + suffix), kind.read_only, [](const std::string& mount) {
        EXPECT_EQ(ReadBytes(mount + "/file"), std::vector<uint8_t>({1, 2, 3}));
      });
    }
  }
}

TEST_F(StandstillTest, AGroupMayBeFrozenPartlyByAnotherProgram) {
  Volume* const theirs = Make("theirs", "ext4", kSize);
  Volume* const ours = Make("ours", "ext4", kSize);
  Volume* const raw = Make("raw", "", kSize);
  WriteBytes(theirs->mount_point() + "/file", 0, {1});
  WriteBytes(ours->mount_point() + "/file", 0, {2});
  FsFreeze(*theirs, "-f");
  ASSERT_VALUE(outcome, TakeSnapshots({theirs->Member("a"), ours->Member("b"), raw->Member("c"),
                                       theirs->Member("d")}));
  EXPECT_GT(outcome.frozen_ns, 0u);
  EXPECT_TRUE(IsFrozen(*theirs) && ours->IsThawed());
  FsFreeze(*theirs, "-u");
  for (const char* const snapshot : {"a", "d"}) {
    WithMounted(At(snapshot), "noload", [](const std::string& mount) {
      EXPECT_EQ(ReadBytes(mount + "/file"), std::vector<uint8_t>({1}));
    });
  }
}

TEST_F(StandstillTest, OnlyOneVolumeIsTakenWhereNobodyCountsItsWrites) {
  Volume* const theirs = Make("theirs", "ext4", kSize);
  Volume* const other = Make("other", "", kSize);
  const auto count = [&](char value) {
    std::ofstream(("/sys/block" + theirs->loop().substr(4) + "/queue/iostats").c_str()) << value;
  };
  count('0');
  FsFreeze(*theirs, "-f");
  Result<TakenSnapshots> refused = TakeSnapshots({theirs->Member("a"), other->Member("b")});
  EXPECT_CODE(refused, kSnapshotUncounted);
  EXPECT_EQ(refused.status().failure().path, theirs->mount_point());
  EXPECT_FALSE(Exists(At("a")) || Exists(At("b")) || Exists(At("a.tmp")));
  EXPECT_OK(TakeSnapshots({theirs->Member("c")}));
  EXPECT_TRUE(IsFrozen(*theirs));
  count('1');
  EXPECT_OK(TakeSnapshots({theirs->Member("a"), other->Member("b")}));
  FsFreeze(*theirs, "-u");
}

// What happens between the first and the last clone, and whether that is noticed.
class StandstillProofTest : public StandstillTest {
 protected:
  // With a volume that is frozen by us, or by another.
  bool Proves(const Kind& kind, bool by_another,
              const std::function<void(const Volume&)>& meanwhile) {
    Volume* const volume = Make(std::to_string(volumes_++), kind.name, kind.size_bytes);
    const std::string file = volume->mount_point() + "/file";
    WriteBytes(file, 0, std::vector<uint8_t>(4096, 1));
    if (by_another) FsFreeze(*volume, "-f");
    Result<SourceVolume> source = SourceVolume::Open(volume->Member("snapshot"));
    Result<Guardian> guardian = Guardian::Start();
    EXPECT_TRUE(source.ok() && guardian.ok());
    bool stood_still = false;
    {
      Result<Standstill> standstill = Standstill::Begin(&*source, &*guardian);
      EXPECT_OK(standstill);
      EXPECT_OK(source->Flush());
      EXPECT_EQ(standstill->by_another(), by_another);
      EXPECT_TRUE(ValueOf(standstill->Watch()));
      meanwhile(*volume);
      stood_still = ValueOf(standstill->End());
    }
    static_cast<void>(ThawPath(volume->mount_point()));
    return stood_still;
  }

 private:
  int volumes_ = 0;
};

void Overwrite(const Volume& volume) {
  WriteBytes(volume.mount_point() + "/file", 0, std::vector<uint8_t>(4096, 2));
}

TEST_F(StandstillProofTest, AFileSystemThatNobodyThawsStandsStill) {
  for (const Kind& kind : kKinds) {
    SCOPED_TRACE(kind.name);
    EXPECT_TRUE(Proves(kind, true, [](const Volume& volume) {
      // Readers may go on.
      EXPECT_EQ(ReadBytes(volume.mount_point() + "/file").size(), 4096u);
    }));
    EXPECT_TRUE(Proves(kind, false, [](const Volume&) {}));
  }
}

TEST_F(StandstillProofTest, AWriteBetweenTwoFreezesOfOthersIsNoticed) {
  for (const Kind& kind : kKinds) {
    for (const bool by_another : {true, false}) {
      SCOPED_TRACE(kind.name);
      EXPECT_FALSE(Proves(kind, by_another, [](const Volume& volume) {
        FsFreeze(volume, "-u");
        Overwrite(volume);
        FsFreeze(volume, "-f");
      }));
    }
  }
}

TEST_F(StandstillProofTest, AFileSystemThatIsThawedAtTheEndIsNoticedAndLeftThawed) {
  // On btrfs a thaw alone writes nothing.
  EXPECT_FALSE(Proves(kKinds[2], true, [](const Volume& volume) { FsFreeze(volume, "-u"); }));
  EXPECT_FALSE(Proves(kKinds[0], false, [](const Volume& volume) { FsFreeze(volume, "-u"); }));
  EXPECT_FALSE(Proves(kKinds[0], true, [](const Volume& volume) {
    FsFreeze(volume, "-u");
    // Only in memory.
    Overwrite(volume);
  }));
}

TEST_F(StandstillTest, NothingIsFrozenWhenTheCallerHasStoppedWaiting) {
  Volume* const volume = Make("volume", "ext4", kSize);
  SnapshotAids aids;
  aids.freezing.deadline_ms = 1;
  Result<TakenSnapshots> late = TakeSnapshots({volume->Member("late")}, aids);
  EXPECT_CODE(late, "ETIMEDOUT");
  EXPECT_EQ(late.status().failure().syscall, "syncfs");
  EXPECT_TRUE(volume->IsThawed());
  EXPECT_FALSE(Exists(At("late")) || Exists(At("late.tmp")));
}

TEST_F(StandstillTest, CountsTheExtentsOfAFile) {
  for (const char* const kind : {"xfs", "btrfs", "ext4"}) {
    const Pool pool(kind);
    const std::string path = MakeFile(pool.At("file"), kSize);
    EXPECT_EQ(ValueOf(CountExtents(path)), 0u);
    for (const uint64_t offset : {0, 1, 2, 3}) WriteBytes(path, offset * kMiB, {1});
    EXPECT_OK(SyncPath(path));
    EXPECT_EQ(ValueOf(CountExtents(path)), 4u) << kind;
  }
}

}  // namespace
}  // namespace blockdelta::test
