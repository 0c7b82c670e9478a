// Scans of maps whose extents move while they are read, in a model of what a file system may do.
#include "native/scan/windowed_scan.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "native/scan/interval_walk.h"
#include "test/native/random_seed.h"
#include "test/native/wire.h"

namespace blockdelta::test {
namespace {

constexpr uint64_t kBlock = 4096;
constexpr uint64_t kHole = 0;

// Two frozen files in a pool that moves their blocks. What a file holds never changes; where it
// lies does. An address that was freed is taken again only in a later generation.
class World {
 public:
  World(uint64_t seed, uint64_t blocks) : random_(seed), blocks_(blocks), used_(4 * blocks + 1) {
    for (auto& file : files_) file.resize(blocks);
    for (uint64_t block = 0; block < blocks; block++) {
      const uint64_t kind = Below(8);
      if (kind == 0) continue;  // A hole in both.
      if (kind != 1) Give(&files_[0][block], 2 * block + 1);
      if (kind == 2) {
        files_[1][block] = files_[0][block];  // Shared.
        used_[files_[0][block].address].users++;
      } else if (kind != 3) {
        Give(&files_[1][block], 2 * block + 2);
      }
    }
  }

  uint64_t Below(uint64_t limit) {
    return std::uniform_int_distribution<uint64_t>(0, limit - 1)(random_);
  }
  uint64_t blocks() const { return blocks_; }
  uint64_t generation() const { return generation_; }
  uint64_t AddressOf(int file, uint64_t block) const { return files_[file][block].address; }
  bool Differ(uint64_t block) const { return files_[0][block].content != files_[1][block].content; }

  void Commit() { generation_++; }

  // Moves one block of one file to an address that is free by now, preferably to one that the other
  // file has just left: only that can deceive a scan.
  void MoveOne() {
    const int file = static_cast<int>(Below(2));
    const uint64_t block = Below(blocks_);
    Place* const place = &files_[file][block];
    if (place->address == kHole) return;
    const uint64_t left = last_[1 - file][block % kRemembered];
    const uint64_t to = Below(2) == 0 && IsFree(left) ? left : 1 + Below(used_.size() - 1);
    if (!IsFree(to)) return;
    last_[file][block % kRemembered] = place->address;
    used_[place->address].users--;
    used_[place->address].freed_in = generation_;
    place->address = to;
    used_[to].users++;
  }

  // Lets both files of a block swap addresses by way of two generations.
  void Swap() {
    const uint64_t block = Below(blocks_);
    Place* const left = &files_[0][block];
    Place* const right = &files_[1][block];
    if (left->address == kHole || right->address == kHole) return;
    std::swap(left->address, right->address);
    generation_ += 2;
  }

 private:
  static constexpr size_t kRemembered = 64;

  struct Place {
    uint64_t content = 0;
    uint64_t address = kHole;
  };
  struct Use {
    unsigned users = 0;
    uint64_t freed_in = 0;
  };

  bool IsFree(uint64_t address) const {
    return address != kHole && used_[address].users == 0 && used_[address].freed_in < generation_;
  }
  void Give(Place* place, uint64_t content) {
    do {
      place->address = 1 + Below(used_.size() - 1);
    } while (used_[place->address].users > 0);
    used_[place->address].users++;
    place->content = content;
  }

  std::mt19937_64 random_;
  const uint64_t blocks_;
  std::vector<Use> used_;
  std::vector<Place> files_[2];
  uint64_t last_[2][kRemembered] = {};
  uint64_t generation_ = 1;
};

// How wild the world is while it is read: events a read, out of 1000.
struct Weather {
  uint64_t moves;
  uint64_t swaps;
  uint64_t commits;
  uint64_t broken_maps;
};

class MovingSource : public ExtentSource {
 public:
  MovingSource(World* world, int file, const Weather& weather)
      : world_(world), file_(file), weather_(weather) {}

  void Seek(uint64_t offset) override { next_ = offset / kBlock; }

  Result<Span<const Extent>> Read(size_t wanted) override {
    if (world_->Below(1000) < weather_.broken_maps) {
      return Status::Scan(kScanMapInvalid, "", "moved while it was read");
    }
    batch_.clear();
    while (next_ < world_->blocks() && batch_.size() < std::min<size_t>(wanted, 8)) {
      const uint64_t address = world_->AddressOf(file_, next_);
      if (address != kHole) batch_.push_back({next_ * kBlock, address * kBlock, kBlock, 0});
      next_++;
    }
    if (world_->Below(1000) < weather_.moves) {
      for (int i = 0; i < 20; i++) world_->MoveOne();
    }
    if (world_->Below(1000) < weather_.swaps) world_->Swap();
    if (world_->Below(1000) < weather_.commits) world_->Commit();
    return Span<const Extent>(batch_.data(), batch_.size());
  }

 private:
  World* const world_;
  const int file_;
  const Weather weather_;
  uint64_t next_ = 0;
  std::vector<Extent> batch_;
};

class GenerationFence : public Fence {
 public:
  explicit GenerationFence(const World& world) : world_(world) {}
  Status Raise() override {
    generation_ = world_.generation();
    return Status();
  }
  Result<bool> Holds() override { return world_.generation() == generation_; }
  bool extents_move() const override { return true; }

 private:
  const World& world_;
  uint64_t generation_ = 0;
};

struct Found {
  uint64_t missed = 0;
  uint64_t reported_though_equal = 0;
  uint64_t rescans = 0;
  uint64_t unproved_bytes = 0;
  std::string failure;
};

Found Compare(const World& world, const std::vector<Message>& messages) {
  std::vector<bool> reported(world.blocks());
  for (const Message& message : messages) {
    for (const Range& range : message.ranges) {
      for (uint64_t at = range.offset; at < range.offset + range.size; at += kBlock) {
        EXPECT_FALSE(reported[at / kBlock]);
        reported[at / kBlock] = true;
      }
    }
  }
  Found found;
  for (uint64_t block = 0; block < world.blocks(); block++) {
    if (world.Differ(block) && !reported[block]) found.missed++;
    if (!world.Differ(block) && reported[block]) found.reported_though_equal++;
  }
  return found;
}

Found Scan(World* world, const Weather& weather) {
  GenerationFence fence(*world);
  const uint64_t size = world->blocks() * kBlock;
  std::vector<uint8_t> buffer(1 << 20);
  MovingSource target(world, 0, weather);
  MovingSource base(world, 1, weather);
  IntervalWalk walk(&target, &base, size);
  MessageWriter writer(Span<uint8_t>(buffer.data(), buffer.size()), size, 100);
  Filler filler(&walk, &writer, {0, 0, 1 << 20, 100, 1 << 30, false});
  WindowedScan scan(&fence, &walk, &filler);
  Status status = scan.Run();
  if (!status.ok()) {
    Found failed;
    failed.failure = status.failure().code;
    return failed;
  }
  const FillOutcome outcome = filler.Finish();
  EXPECT_TRUE(outcome.done);
  const auto messages = WireReader(buffer.data(), outcome.bytes).Messages();
  EXPECT_TRUE(messages.has_value());
  if (!messages.has_value()) return {};
  Found found = Compare(*world, *messages);
  found.rescans = scan.rescans();
  found.unproved_bytes = outcome.unproved_bytes;
  return found;
}

TEST(WindowedScanTest, FindsExactlyTheDifferingBlocksOfAQuietPoolAndReadsNothingTwice) {
  World world(Seed(), 5000);
  const Found found = Scan(&world, {0, 0, 0, 0});
  EXPECT_EQ(found.missed + found.reported_though_equal + found.rescans, 0u);
  EXPECT_EQ(found.unproved_bytes, 0u);
}

TEST(WindowedScanTest, MissesNoDifferingBlockWhateverMoves) {
  const uint64_t rounds = IsNightly() ? 2000 : 150;
  uint64_t rescans = 0;
  for (uint64_t i = 0; i < rounds; i++) {
    World world(Seed() + i, 1500);
    const Weather weather = {world.Below(1000), world.Below(30), world.Below(100), world.Below(4)};
    const Found found = Scan(&world, weather);
    EXPECT_EQ(found.missed, 0u) << "in world " << i;
    EXPECT_EQ(found.failure, std::string());
    rescans += found.rescans;
  }
  EXPECT_GT(rescans, 0);
}

TEST(WindowedScanTest, ReportsAndCountsEverythingEqualByAddressWhenNothingStandsStill) {
  World world(Seed(), 1500);
  const Found found = Scan(&world, {0, 0, 1000, 0});
  EXPECT_EQ(found.missed, 0u);
  EXPECT_GT(found.reported_though_equal, 0);
  EXPECT_EQ(found.unproved_bytes, found.reported_though_equal * kBlock);
}

TEST(WindowedScanTest, FailsInTheEndOnAMapThatIsNeverInOrder) {
  World world(Seed(), 1500);
  EXPECT_EQ(Scan(&world, {0, 0, 0, 1000}).failure, std::string("SCAN_MAP_INVALID"));
}

}  // namespace
}  // namespace blockdelta::test
