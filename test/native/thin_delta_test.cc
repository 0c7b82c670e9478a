// The walk of mapping trees: random trees that share nodes against plain maps of their content.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>

#include "native/thin/delta_walk.h"
#include "test/native/mapping_trees.h"
#include "test/native/random_seed.h"
#include "test/native/status_assertions.h"
#include "test/native/thin_image_source.h"
#include "test/native/tree_family.h"

namespace blockdelta {
namespace {

using test::Family;
using test::Mappings;
using test::MappingTrees;
using test::RandomFamily;
using test::ThinImageSource;

// A run a block, written out.
using Blocks = std::map<uint64_t, DeltaKind>;

std::string Text(const Blocks& blocks) {
  std::string text;
  for (const auto& [block, kind] : blocks) {
    text += "slrd"[static_cast<int>(kind)] + std::to_string(block) + " ";
  }
  return text;
}

Blocks Expected(const Mappings* left, const Mappings& right, KeyRange range, bool include_same) {
  Blocks blocks;
  for (const auto& [block, value] : right) {
    const auto other = left == nullptr ? right.end() : left->find(block);
    const bool is_alone = left == nullptr || other == left->end();
    if (is_alone) {
      blocks[block] = DeltaKind::kRightOnly;
    } else if (other->second >> 24 != value >> 24) {
      blocks[block] = DeltaKind::kDifferent;
    } else if (include_same) {
      blocks[block] = DeltaKind::kSame;
    }
  }
  if (left != nullptr) {
    for (const auto& [block, value] : *left) {
      if (right.count(block) == 0) blocks[block] = DeltaKind::kLeftOnly;
    }
  }
  blocks.erase(blocks.begin(), blocks.lower_bound(range.low));
  blocks.erase(blocks.lower_bound(range.high), blocks.end());
  return blocks;
}

// The whole walk; checks what must hold of every step.
Result<Blocks> Walk(DeltaWalk* walk, KeyRange range) {
  Blocks blocks;
  Status status = walk->Seek(range);
  if (!status.ok()) return status;
  uint64_t examined = range.low;
  for (unsigned reads = 0; !walk->done(); reads++) {
    EXPECT_LT(reads, 100'000u);
    if (reads >= 100'000) break;
    Result<Span<const DeltaRun>> runs = walk->Read();
    if (!runs.ok()) return runs.TakeStatus();
    EXPECT_GE(walk->examined(), examined);
    for (const DeltaRun& run : *runs) {
      EXPECT_TRUE(run.begin >= examined && run.end() <= walk->examined());
      for (uint64_t block = run.begin; block < run.end(); block++) {
        EXPECT_TRUE(blocks.emplace(block, run.kind).second);
      }
    }
    examined = walk->examined();
  }
  return blocks;
}

KeyRange RandomRange(std::mt19937_64* random) {
  const uint64_t low = (*random)() % 3 == 0 ? (*random)() % 2100 : 0;
  const uint64_t high = (*random)() % 3 == 0 ? low + (*random)() % 500 : UINT64_MAX;
  return {low, high};
}

TEST(ThinDeltaTest, FindsExactlyWhereTheDataBlocksOfTwoMappingTreesDiffer) {
  std::mt19937_64 random(test::Seed());
  const size_t batches[] = {1, 5, 64, 4096};
  for (int round = 0; round < (test::IsNightly() ? 5000 : 400); round++) {
    const Family family = RandomFamily(&random);
    ThinImageSource source(family.trees.Image(), batches[random() % 4]);
    const uint64_t left_root = family.roots[random() % family.roots.size()];
    const uint64_t right_root = family.roots[random() % family.roots.size()];
    const Mappings left = family.trees.Content(left_root);
    const Mappings right = family.trees.Content(right_root);
    for (const bool include_same : {false, true}) {
      const KeyRange range = RandomRange(&random);
      MappingReader reader(&source, 0);
      DeltaSides sides;
      sides.roots = {left_root, right_root};
      sides.include_same = include_same;
      DeltaWalk walk(&reader, sides);
      Result<Blocks> found = Walk(&walk, range);
      ASSERT_OK(found);
      EXPECT_EQ(Text(*found), Text(Expected(&left, right, range, include_same)));
    }
    MappingReader reader(&source, 0);
    DeltaSides sides;
    sides.roots = {std::nullopt, right_root};
    DeltaWalk walk(&reader, sides);
    Result<Blocks> found = Walk(&walk, KeyRange());
    ASSERT_OK(found);
    EXPECT_EQ(Text(*found), Text(Expected(nullptr, right, KeyRange(), false)));
  }
}

// A node that both have may begin at different keys in their parents, as these are bounds only:
// where another node of one side comes between, the walk meets it alone on each side, and reads it
// twice.
TEST(ThinDeltaTest, ReadsEachUnsharedNodeOnceAndHardlyAnyOther) {
  std::mt19937_64 random(test::Seed());
  size_t all_needed = 0;
  size_t all_read = 0;
  for (int round = 0; round < 300; round++) {
    const Family family = RandomFamily(&random);
    const uint64_t left_root = family.roots[0];
    const uint64_t right_root = family.roots[1];
    if (family.trees.Height(left_root) != family.trees.Height(right_root)) continue;
    ThinImageSource source(family.trees.Image(), 64);
    MappingReader reader(&source, 0);
    DeltaSides sides;
    sides.roots = {left_root, right_root};
    DeltaWalk walk(&reader, sides);
    ASSERT_OK(Walk(&walk, KeyRange()));
    const std::set<uint64_t> left = family.trees.Nodes(left_root);
    const std::set<uint64_t> right = family.trees.Nodes(right_root);
    std::set<uint64_t> needed;
    std::set_symmetric_difference(left.begin(), left.end(), right.begin(), right.end(),
                                  std::inserter(needed, needed.end()));
    for (const uint64_t block : needed) {
      const auto times = source.reads_of().find(block);
      EXPECT_TRUE(times != source.reads_of().end() && times->second == 1);
    }
    EXPECT_EQ(source.reads(), reader.nodes());
    all_needed += needed.size();
    all_read += source.reads();
  }
  EXPECT_LE(all_read, all_needed + all_needed / 100);
}

// Ways to spoil a node so that it has a good checksum still.
enum class Damage { kByte, kNumber, kKeyOrder, kKeyRange, kCount, kChild, kDataBlock };

// False if this damage does not apply to the node.
bool Spoil(Damage damage, uint64_t number, uint32_t max_entries, ThinImageSource* source,
           std::mt19937_64* random) {
  uint8_t* const block = source->block(number);
  const auto write = [&](size_t offset, uint64_t value, size_t bytes) {
    std::memcpy(block + offset, &value, bytes);
  };
  const bool is_leaf = ReadLe32(block + 4) == 2;
  const uint32_t count = ReadLe32(block + 16);
  const size_t values = 32 + size_t{max_entries} * 8;
  switch (damage) {
    case Damage::kByte:
      block[(*random)() % kMetadataBlockBytes] ^= static_cast<uint8_t>(1 + (*random)() % 255);
      return true;
    case Damage::kNumber:
      write(8, number + 1, 8);
      break;
    case Damage::kKeyOrder:
      if (count < 2) return false;
      write(32 + 8, ReadLe64(block + 32), 8);
      break;
    case Damage::kKeyRange:
      if (count == 0) return false;
      write(32 + size_t{count - 1} * 8, UINT64_MAX, 8);
      break;
    case Damage::kCount:
      write(16, max_entries + 1, 4);
      break;
    case Damage::kChild:
      if (is_leaf) return false;
      write(values, source->block_count(), 8);
      break;
    case Damage::kDataBlock:
      if (!is_leaf || count == 0) return false;
      write(values, uint64_t{1} << 60, 8);
      break;
  }
  source->SealNode(number);
  return true;
}

TEST(ThinDeltaTest, FailsWhenItReadsAnInvalidNode) {
  std::mt19937_64 random(test::Seed());
  for (int round = 0; round < 400; round++) {
    const Family family = RandomFamily(&random);
    ThinImageSource source(family.trees.Image(), 16);
    DeltaSides sides;
    sides.roots = {family.roots[0], family.roots[1]};
    sides.include_same = random() % 2 == 0;
    MappingReader reader(&source, uint64_t{1} << 30);
    DeltaWalk walk(&reader, sides);
    ASSERT_OK(Walk(&walk, KeyRange()));
    if (source.reads_of().empty()) continue;
    const auto read = std::next(source.reads_of().begin(),
                                static_cast<ptrdiff_t>(random() % source.reads_of().size()));
    const auto damage = static_cast<Damage>(random() % 7);
    const uint32_t max_entries = ReadLe32(source.block(read->first) + 20);
    if (!Spoil(damage, read->first, max_entries, &source, &random)) continue;
    DeltaWalk damaged(&reader, sides);
    Result<Blocks> found = Walk(&damaged, KeyRange());
    EXPECT_CODE(found, kThinMetadataInvalid);
    const std::string name = "block " + std::to_string(read->first) + " of memory";
    EXPECT_EQ(test::MessageOf(found).rfind(name, 0), 0);
  }
}

// Gives entry `index` of an internal node another key.
void MoveBound(uint64_t number, uint32_t index, uint64_t key, ThinImageSource* source) {
  std::memcpy(source->block(number) + 32 + size_t{index} * 8, &key, 8);
  source->SealNode(number);
}

// The descent to the first key checks both sides by themselves, so the second leaf is the one here.
TEST(ThinDeltaTest, H24ASharedNodeIsCheckedAgainstItsParentsRangeInBothTrees) {
  constexpr uint32_t kMaxEntries = 4;
  MappingTrees trees(kMaxEntries);
  uint64_t left = trees.Empty();
  for (uint64_t key = 0; key < 7; key++) left = trees.Set(left, 10 * key, (1 + key) << 24);
  trees.Share();
  const uint64_t right = trees.Set(left, 60, uint64_t{99} << 24);
  for (const uint64_t damaged : {left, right}) {
    ThinImageSource source(trees.Image(), 16);
    const NodeView left_root(source.block(left));
    const uint64_t shared = left_root.value(1);
    const NodeView leaf(source.block(shared));
    ASSERT_TRUE(left_root.count() > 2 && leaf.is_leaf());
    EXPECT_EQ(shared, NodeView(source.block(right)).value(1));
    const uint64_t last_key = leaf.key(leaf.count() - 1);
    DeltaSides sides;
    sides.roots = {left, right};
    sides.include_same = true;
    MappingReader reader(&source, 0);
    // As bounds of a sound tree may do, this one comes down to the key after the last of the leaf.
    MoveBound(damaged, 2, last_key + 1, &source);
    DeltaWalk sound(&reader, sides);
    EXPECT_OK(Walk(&sound, KeyRange()));
    MoveBound(damaged, 2, last_key, &source);
    DeltaWalk walk(&reader, sides);
    Result<Blocks> found = Walk(&walk, KeyRange());
    EXPECT_CODE(found, kThinMetadataInvalid);
    EXPECT_EQ(test::MessageOf(found).rfind("block " + std::to_string(shared) + " of memory", 0),
              size_t{0});
  }
}

TEST(ThinDeltaTest, FailsWhenLeavesLieAtDifferentDepths) {
  MappingTrees trees(3);
  uint64_t root = trees.Empty();
  for (uint64_t key = 0; key < 12; key++) root = trees.Set(root, key, key << 24);
  ThinImageSource source(trees.Image(), 16);
  // The second child of the root becomes the leaf that is lowest in it.
  const uint64_t low_key = ReadLe64(source.block(root) + 32 + 8);
  uint64_t leaf = ReadLe64(source.block(root) + 32 + 3 * 8 + 8);
  while (ReadLe32(source.block(leaf) + 4) != 2) {
    EXPECT_EQ(ReadLe64(source.block(leaf) + 32), low_key);
    leaf = ReadLe64(source.block(leaf) + 32 + 3 * 8);
  }
  std::memcpy(source.block(root) + 32 + 3 * 8 + 8, &leaf, 8);
  source.SealNode(root);
  MappingReader reader(&source, 0);
  DeltaSides sides;
  sides.roots = {std::nullopt, root};
  DeltaWalk walk(&reader, sides);
  EXPECT_CODE(Walk(&walk, KeyRange()), kThinMetadataInvalid);
}

TEST(ThinDeltaTest, EndsWhenATreeLeadsBackIntoItself) {
  MappingTrees trees(3);
  const uint64_t leaf = trees.Set(trees.Empty(), 0, 1 << 24);
  const uint64_t lower = trees.Raise(leaf);
  const uint64_t root = trees.Raise(lower);
  ThinImageSource source(trees.Image(), 16);
  std::memcpy(source.block(lower) + 32 + 3 * 8, &root, 8);
  source.SealNode(lower);
  MappingReader reader(&source, 0);
  DeltaSides sides;
  sides.roots = {std::nullopt, root};
  DeltaWalk walk(&reader, sides);
  Result<Blocks> found = Walk(&walk, KeyRange());
  EXPECT_CODE(found, kThinMetadataInvalid);
  EXPECT_NE(test::MessageOf(found).find("10 levels"), std::string::npos);
}

}  // namespace
}  // namespace blockdelta
