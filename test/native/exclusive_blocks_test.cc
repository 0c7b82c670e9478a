// How many data blocks each thin device holds alone, compared with a plain count of all mappings.
#include "native/thin/exclusive_blocks.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "test/native/random_seed.h"
#include "test/native/status_assertions.h"
#include "test/native/thin_image_source.h"

namespace blockdelta::test {
namespace {

ThinPool PoolOf(const Family& family, uint64_t data_blocks) {
  PoolPlan plan;
  plan.data_blocks = data_blocks;
  for (size_t i = 0; i < family.roots.size(); i++) {
    plan.devices.push_back({i + 1, family.roots[i], static_cast<uint32_t>(i)});
  }
  return MakePool(family.trees, plan);
}

std::vector<uint64_t> CountedPlainly(const Family& family, uint64_t* highest) {
  std::map<uint64_t, unsigned> uses;
  for (const uint64_t root : family.roots) {
    for (const auto& [key, value] : family.trees.Content(root)) uses[value >> 24]++;
  }
  *highest = uses.empty() ? 0 : uses.rbegin()->first;
  std::vector<uint64_t> counts;
  for (const uint64_t root : family.roots) {
    counts.push_back(0);
    for (const auto& [key, value] : family.trees.Content(root)) {
      if (uses[value >> 24] == 1) counts.back()++;
    }
  }
  return counts;
}

TEST(ExclusiveBlocksTest, CountsWhatNoOtherDeviceMapsAndReadsNoNodeMoreThanTwice) {
  std::mt19937_64 random(Seed());
  bool any = false;
  for (int round = 0; round < 200; round++) {
    const Family family = RandomFamily(&random);
    uint64_t highest;
    const std::vector<uint64_t> expected = CountedPlainly(family, &highest);
    ThinImageSource source(PoolOf(family, highest + 1).image);
    ASSERT_VALUE(superblock, ReadSuperblock(&source, 0));
    ASSERT_VALUE(list, ListThinDevices(&source, superblock, WantedKeys::All(), 1000));
    std::map<uint64_t, unsigned> before = source.reads_of();
    ASSERT_VALUE(counts, CountExclusiveBlocks(&source, superblock, list.devices));
    EXPECT_EQ(counts, expected);
    for (const auto& [block, reads] : source.reads_of()) EXPECT_LE(reads - before[block], 2u);
    for (const uint64_t count : counts) any = any || count > 0;
  }
  EXPECT_TRUE(any);
}

TEST(ExclusiveBlocksTest, RefusesDataBlocksThatThePoolDoesNotHave) {
  Family family = {MappingTrees(10), {}};
  family.roots = {family.trees.Set(family.trees.Empty(), 3, uint64_t{500} << 24)};
  for (const auto& [data_blocks, complaint] :
       {std::pair<uint64_t, const char*>{500, "expected data blocks below 500"},
        {1 << 30, "expected at most as many data blocks as bitmaps"}}) {
    ThinImageSource source(PoolOf(family, data_blocks).image);
    ASSERT_VALUE(superblock, ReadSuperblock(&source, 0));
    ASSERT_VALUE(list, ListThinDevices(&source, superblock, WantedKeys::All(), 1000));
    const auto counts = CountExclusiveBlocks(&source, superblock, list.devices);
    EXPECT_CODE(counts, kThinMetadataInvalid);
    EXPECT_NE(MessageOf(counts.status()).find(complaint), std::string::npos);
  }
}

}  // namespace
}  // namespace blockdelta::test
