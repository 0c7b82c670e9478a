// The walk of mapping trees: random trees that share nodes against plain maps of their content.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>

#include "test/native/random_seed.h"
#include "test/native/status_assertions.h"
#include "test/native/thin_image_source.h"
#include "test/native/thin_walk.h"

namespace blockdelta::test {
namespace {

// As failures show them.
std::string Text(const BlockKinds& blocks) {
  std::string text;
  for (const auto& [block, kind] : blocks) {
    text += "slrd"[static_cast<int>(kind)] + std::to_string(block) + " ";
  }
  return text;
}

// From one root, if any, to the other.
Result<BlockKinds> Walk(MappingReader* reader, std::optional<uint64_t> left, uint64_t right,
                        bool include_same = false, KeyRange range = KeyRange()) {
  DeltaSides sides;
  sides.roots = {left, right};
  sides.include_same = include_same;
  return WalkAll(reader, sides, range);
}

KeyRange RandomRange(std::mt19937_64* random) {
  const uint64_t low = (*random)() % 3 == 0 ? (*random)() % 2100 : 0;
  const uint64_t high = (*random)() % 3 == 0 ? low + (*random)() % 500 : UINT64_MAX;
  return {low, high};
}

// Batches that are packed, or not, and that end after the first node, or after some.
BatchLimits RandomLimits(std::mt19937_64* random) {
  const size_t nodes[] = {1, 3, 16, 512};
  const size_t bytes[] = {1, 1000, 10'000, size_t{32} << 20};
  return {nodes[(*random)() % 4], bytes[(*random)() % 4]};
}

// One more than the highest data block, or unknown.
uint64_t RandomDataBlocks(const Mappings& left, const Mappings& right, std::mt19937_64* random) {
  if ((*random)() % 2 == 0) return 0;
  uint64_t highest = 0;
  for (const Mappings* side : {&left, &right}) {
    for (const auto& [block, value] : *side) highest = std::max(highest, value >> 24);
  }
  return highest + 1;
}

TEST(ThinDeltaTest, FindsExactlyWhereTheDataBlocksOfTwoMappingTreesDiffer) {
  std::mt19937_64 random(Seed());
  const size_t batches[] = {1, 5, 64, 4096};
  for (int round = 0; round < (IsNightly() ? 5000 : 400); round++) {
    const Family family = RandomFamily(&random);
    ThinImageSource source(MakePool(family.trees, {}).image, batches[random() % 4]);
    const uint64_t left_root = family.roots[random() % family.roots.size()];
    const uint64_t right_root = family.roots[random() % family.roots.size()];
    const Mappings left = family.trees.Content(left_root);
    const Mappings right = family.trees.Content(right_root);
    MappingReader reader(&source, RandomDataBlocks(left, right, &random), RandomLimits(&random));
    for (const bool include_same : {false, true}) {
      const KeyRange range = RandomRange(&random);
      ASSERT_VALUE(found, Walk(&reader, left_root, right_root, include_same, range));
      EXPECT_EQ(Text(found), Text(ExpectedKinds(left, right, include_same, range)));
    }
    ASSERT_VALUE(found, Walk(&reader, std::nullopt, right_root));
    EXPECT_EQ(Text(found), Text(ExpectedKinds({}, right)));
  }
}

TEST(ThinDeltaTest, FindsTheMappingsOfASingleTreeThatAreYoung) {
  std::mt19937_64 random(Seed());
  for (int round = 0; round < 200; round++) {
    const Family family = RandomFamily(&random);
    ThinImageSource source(MakePool(family.trees, {}).image, 4096);
    DeltaSides sides;
    sides.roots = {std::nullopt, family.roots.back()};
    sides.young_from = random() % 4;
    BlockKinds expected;
    for (const auto& [block, value] : family.trees.Content(family.roots.back())) {
      const bool is_young = (value & kMappingTimeMask) >= sides.young_from;
      expected[block] = is_young ? DeltaKind::kDifferent : DeltaKind::kRightOnly;
    }
    MappingReader reader(&source, 0, RandomLimits(&random));
    ASSERT_VALUE(found, WalkAll(&reader, sides));
    EXPECT_EQ(Text(found), Text(expected));
  }
}

// Keys and data blocks as far apart as the format allows, and beyond each width of a packed number.
TEST(ThinDeltaTest, ComparesPackedLeavesOfAnyKeysAndDataBlocks) {
  std::mt19937_64 random(Seed());
  for (int round = 0; round < 100; round++) {
    MappingTrees trees(random() % 2 == 0 ? 4 : 252);
    uint64_t root = trees.Empty();
    uint64_t roots[2];
    const unsigned key_bits = 6 + random() % 58;
    const unsigned data_bits = 1 + random() % 40;
    for (uint64_t& side : roots) {
      for (int i = 0; i < 40; i++) {
        const uint64_t key = random() >> (64 - key_bits);
        root = trees.Set(root, key, random() >> (64 - data_bits) << 24 | random() % 3);
      }
      trees.Share();
      side = root;
    }
    ThinImageSource source(MakePool(trees, {}).image, 4096);
    MappingReader reader(&source, uint64_t{1} << data_bits, {1, size_t{32} << 20});
    ASSERT_VALUE(found, Walk(&reader, roots[0], roots[1]));
    EXPECT_EQ(Text(found), Text(ExpectedKinds(trees.Content(roots[0]), trees.Content(roots[1]))));
  }
}

// A tree of some hundred leaves, walked in batches that are as large as the limits permit.
class ThinBatchTest : public testing::Test {
 protected:
  void Walk(BatchLimits limits) {
    MappingTrees trees(4);
    uint64_t root = trees.Empty();
    // The numbers 1 to 1200, in an order that scatters the leaves.
    for (uint64_t i = 1; i <= 1200; i++) root = trees.Set(root, i * 700 % 1201, i << 24);
    ThinImageSource source(MakePool(trees, {}).image, 4096);
    source.AfterRead([&](const uint8_t* block) {
      const uint64_t number = ReadLe64(block + kOwnNumberOffset);
      falls_ += number < last_number_ ? 1 : 0;
      last_number_ = number;
    });
    MappingReader reader(&source, 0, limits);
    DeltaSides sides;
    sides.roots.right = root;
    DeltaWalk walk(&reader, sides);
    ASSERT_OK(walk.Seek(KeyRange()));
    uint64_t blocks = 0;
    while (!walk.done()) {
      const uint64_t before = reader.nodes();
      ASSERT_VALUE(runs, walk.Read());
      for (const DeltaRun& run : runs) blocks += run.length;
      largest_ = std::max(largest_, reader.nodes() - before);
    }
    EXPECT_EQ(blocks, 1200u);
  }

  // Times that a read block had a lower number than the one before.
  unsigned falls_ = 0;
  // Nodes read by the call of Read() that read the most.
  uint64_t largest_ = 0;

 private:
  uint64_t last_number_ = 0;
};

TEST_F(ThinBatchTest, ReadsTheNodesOfABatchInTheOrderOfTheirBlocks) {
  Walk({2, size_t{32} << 20});
  EXPECT_GT(largest_, 128);
  EXPECT_LT(falls_, 40);
}

TEST_F(ThinBatchTest, EndsABatchWhereItsMemoryEnds) {
  Walk({2, 1000});
  EXPECT_LT(largest_, 30);
}

// A node that both have may begin at different keys in their parents, as these are bounds only:
// where another node of one side comes between, the walk meets it alone on each side, and reads it
// twice.
TEST(ThinDeltaTest, ReadsEachUnsharedNodeOnceAndHardlyAnyOther) {
  std::mt19937_64 random(Seed());
  size_t all_needed = 0;
  size_t all_read = 0;
  for (int round = 0; round < 300; round++) {
    const Family family = RandomFamily(&random);
    const uint64_t left_root = family.roots[0];
    const uint64_t right_root = family.roots[1];
    if (family.trees.Height(left_root) != family.trees.Height(right_root)) continue;
    ThinImageSource source(MakePool(family.trees, {}).image, 64);
    MappingReader reader(&source, 0, RandomLimits(&random));
    ASSERT_OK(Walk(&reader, left_root, right_root));
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

// What is wrong with a node, test/fuzz varies: here, that each node that is read is checked.
TEST(ThinDeltaTest, FailsWhenItReadsAnInvalidNodeAndNamesIt) {
  std::mt19937_64 random(Seed());
  for (int round = 0; round < 400; round++) {
    const Family family = RandomFamily(&random);
    ThinImageSource source(MakePool(family.trees, {}).image, 16);
    const bool include_same = random() % 2 == 0;
    const BatchLimits limits = RandomLimits(&random);
    const auto walk = [&] {
      MappingReader reader(&source, uint64_t{1} << 30, limits);
      return Walk(&reader, family.roots[0], family.roots[1], include_same);
    };
    ASSERT_OK(walk());
    if (source.reads_of().empty()) continue;
    const uint64_t number = std::next(source.reads_of().begin(),
                                      static_cast<ptrdiff_t>(random() % source.reads_of().size()))
                                ->first;
    DiskNode* const node = source.node(number);
    const uint32_t count = node->entries;
    const uint64_t kind = count == 0 ? 0 : random() % 4;
    if (kind == 0) node->number++;
    if (kind == 1) node->keys()[count - 1] = UINT64_MAX;
    // Beyond the image, or beyond the data blocks.
    if (kind == 2) node->words()[0] = node->is_leaf() ? uint64_t{1} << 60 : source.block_count();
    if (kind == 3) {
      source.block(number)[random() % kMetadataBlockBytes] ^=
          static_cast<uint8_t>(1 + random() % 255);
    } else {
      node->Seal();
    }
    Result<BlockKinds> found = walk();
    EXPECT_CODE(found, kThinMetadataInvalid);
    const std::string name = "block " + std::to_string(number) + " of memory";
    EXPECT_EQ(MessageOf(found).rfind(name, 0), 0);
  }
}

// The descent to the first key checks both sides by themselves, so the second leaf is the one here.
TEST(ThinDeltaTest, H24ASharedNodeIsCheckedAgainstItsParentsRangeInBothTrees) {
  MappingTrees trees(4);
  uint64_t left = trees.Empty();
  for (uint64_t key = 0; key < 7; key++) left = trees.Set(left, 10 * key, (1 + key) << 24);
  trees.Share();
  const uint64_t right = trees.Set(left, 60, uint64_t{99} << 24);
  for (const uint64_t damaged : {left, right}) {
    ThinImageSource source(MakePool(trees, {}).image, 16);
    DiskNode* const root = source.node(damaged);
    const uint64_t shared = root->words()[1];
    DiskNode* const leaf = source.node(shared);
    ASSERT_TRUE(root->entries > 2 && leaf->is_leaf());
    EXPECT_EQ(source.node(left)->words()[1], source.node(right)->words()[1]);
    const uint64_t last_key = leaf->keys()[leaf->entries - 1];
    MappingReader reader(&source, 0);
    // As bounds of a sound tree may do, this one comes down to the key after the last of the leaf.
    root->keys()[2] = last_key + 1;
    root->Seal();
    EXPECT_OK(Walk(&reader, left, right, true));
    root->keys()[2] = last_key;
    root->Seal();
    Result<BlockKinds> found = Walk(&reader, left, right, true);
    EXPECT_CODE(found, kThinMetadataInvalid);
    EXPECT_EQ(MessageOf(found).rfind("block " + std::to_string(shared) + " of memory", 0),
              size_t{0});
  }
}

TEST(ThinDeltaTest, FailsWhenLeavesLieAtDifferentDepthsOrATreeLeadsBackIntoItself) {
  MappingTrees trees(3);
  uint64_t root = trees.Empty();
  for (uint64_t key = 0; key < 12; key++) root = trees.Set(root, key, key << 24);
  ThinImageSource source(MakePool(trees, {}).image, 16);
  MappingReader reader(&source, 0);
  uint64_t* const child = &source.node(root)->words()[1];
  // It becomes the leaf that is lowest in it.
  while (!source.node(*child)->is_leaf()) *child = source.node(*child)->words()[0];
  source.node(root)->Seal();
  Result<BlockKinds> uneven = Walk(&reader, std::nullopt, root);
  EXPECT_CODE(uneven, kThinMetadataInvalid);
  EXPECT_NE(MessageOf(uneven).find("as the other nodes of its level"), std::string::npos);
  // A circle of two.
  const uint64_t leaf = trees.Set(trees.Empty(), 0, 1 << 24);
  const uint64_t lower = trees.Raise(leaf);
  const uint64_t upper = trees.Raise(lower);
  ThinImageSource circle(MakePool(trees, {}).image, 16);
  circle.node(lower)->words()[0] = upper;
  circle.node(lower)->Seal();
  MappingReader circling(&circle, 0);
  Result<BlockKinds> found = Walk(&circling, std::nullopt, upper);
  EXPECT_CODE(found, kThinMetadataInvalid);
  EXPECT_NE(MessageOf(found).find("10 levels"), std::string::npos);
}

}  // namespace
}  // namespace blockdelta::test
