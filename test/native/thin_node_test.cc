// The check of a node: a valid one is read, and each kind of damage is found.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "native/thin/block_source.h"
#include "native/thin/btree_node.h"
#include "native/thin/metadata_block.h"
#include "native/thin/thin_format.h"
#include "test/native/random_seed.h"
#include "test/native/status_assertions.h"
#include "test/native/thin_image.h"

namespace blockdelta {
namespace {

constexpr uint64_t kNumber = 17;
constexpr uint64_t kBlocks = 1000;

// A node of a tree, and what it has to be.
struct Sample {
  alignas(8) uint8_t block[kMetadataBlockBytes] = {};
  NodeExpectation expected = {kNumber, {100, 1000}, kMappingValueBytes, kBlocks};

  test::DiskNode* node() { return reinterpret_cast<test::DiskNode*>(block); }
  void Seal() {
    const uint32_t checksum = ChecksumOf(block, kNodeSalt);
    std::memcpy(block, &checksum, sizeof(checksum));
  }
  Result<NodeView> Check() const { return CheckNode(block, expected, "metadata"); }
};

// Ten entries: keys 100, 110, ...; values 50, 51, ...
Sample MakeSample(bool is_leaf) {
  Sample sample;
  test::DiskNode* node = sample.node();
  node->flags = is_leaf ? 2 : 1;
  node->number = kNumber;
  node->max_entries = 252;
  node->value_bytes = 8;
  for (uint32_t i = 0; i < 10; i++) node->Insert(i, 100 + i * 10, 50 + i);
  sample.Seal();
  return sample;
}

// Breaks a sample, gives it a right checksum, and expects the failure to say `what`.
void ExpectRefused(bool is_leaf, const std::function<void(Sample*)>& damage,
                   const std::string& what) {
  Sample sample = MakeSample(is_leaf);
  damage(&sample);
  sample.Seal();
  Result<NodeView> node = sample.Check();
  EXPECT_CODE(node, "THIN_METADATA_INVALID");
  const std::string message = test::MessageOf(node);
  if (message != "block 17 of metadata: " + what) {
    EXPECT_EQ(message, what);
  }
}

TEST(ThinNodeTest, ReadsAValidNode) {
  for (const bool is_leaf : {true, false}) {
    const Sample sample = MakeSample(is_leaf);
    Result<NodeView> node = sample.Check();
    ASSERT_OK(node);
    EXPECT_EQ(node->is_leaf(), is_leaf);
    EXPECT_EQ(node->count(), 10u);
    EXPECT_EQ(node->key(3), 130u);
    EXPECT_EQ(node->value(3), 53u);
    EXPECT_EQ(node->ChildRange(3, {100, 1000}).low, 130u);
    EXPECT_EQ(node->ChildRange(3, {100, 1000}).high, 140u);
    EXPECT_EQ(node->ChildRange(9, {100, 1000}).high, 1000u);
    EXPECT_EQ(node->Find(99), 10u);
    EXPECT_EQ(node->Find(100), 0u);
    EXPECT_EQ(node->Find(139), 3u);
    EXPECT_EQ(node->Find(UINT64_MAX), 9u);
  }
}

TEST(ThinNodeTest, RefusesANodeWithAnyBitChanged) {
  Sample sample = MakeSample(true);
  for (size_t bit = 0; bit < kMetadataBlockBytes * 8; bit += bit < 2000 ? 1 : 37) {
    sample.block[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    EXPECT_CODE(sample.Check(), "THIN_METADATA_INVALID");
    sample.block[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
  }
  EXPECT_OK(sample.Check());
}

TEST(ThinNodeTest, RefusesABlockOfAnotherKindOrFromAnotherPlace) {
  Sample sample = MakeSample(true);
  const uint32_t checksum = ChecksumOf(sample.block, kBitmapSalt);
  std::memcpy(sample.block, &checksum, sizeof(checksum));
  EXPECT_CODE(sample.Check(), "THIN_METADATA_INVALID");
  std::memset(sample.block, 0, sizeof(sample.block));
  EXPECT_CODE(sample.Check(), "THIN_METADATA_INVALID");
  ExpectRefused(
      true, [](Sample* s) { s->node()->number = 18; },
      "expected a btree node with this number, found number 18");
}

TEST(ThinNodeTest, RefusesANodeThatIsNeitherInternalNorALeafOrBoth) {
  for (const uint32_t flags : {0u, 3u, 4u, 6u}) {
    ExpectRefused(
        true, [=](Sample* s) { s->node()->flags = flags; },
        "expected a node with flags 1 (internal) or 2 (leaf), found flags " +
            std::to_string(flags));
  }
}

TEST(ThinNodeTest, RefusesANodeWithValuesOfAnotherSize) {
  ExpectRefused(
      true, [](Sample* s) { s->node()->value_bytes = 4; },
      "expected values of 8 bytes in a leaf, found values of 4");
  ExpectRefused(
      true, [](Sample* s) { s->expected.leaf_value_bytes = 24; },
      "expected values of 24 bytes in a leaf, found values of 8");
  ExpectRefused(
      false, [](Sample* s) { s->node()->value_bytes = 24; },
      "expected values of 8 bytes in an internal node, found values of 24");
  Sample of_details = MakeSample(false);
  of_details.expected.leaf_value_bytes = 24;
  EXPECT_OK(of_details.Check());
}

TEST(ThinNodeTest, RefusesANodeWithRoomForMoreThanABlockHolds) {
  Sample sample = MakeSample(true);
  sample.node()->max_entries = 254;
  sample.Seal();
  EXPECT_OK(sample.Check());
  for (const uint32_t room : {255u, 4096u, 0x80000000u, UINT32_MAX}) {
    ExpectRefused(
        true, [=](Sample* s) { s->node()->max_entries = room; },
        "expected room for at most 254 entries, found " + std::to_string(room));
  }
}

TEST(ThinNodeTest, RefusesANodeWithMoreEntriesThanRoom) {
  for (const uint32_t entries : {253u, UINT32_MAX}) {
    ExpectRefused(
        true, [=](Sample* s) { s->node()->entries = entries; },
        "expected at most 252 entries, found " + std::to_string(entries));
  }
  ExpectRefused(
      true, [](Sample* s) { s->node()->max_entries = 0; }, "expected at most 0 entries, found 10");
}

TEST(ThinNodeTest, AllowsOnlyTheSoleLeafOfAnEmptyTreeToBeEmpty) {
  Sample sample = MakeSample(true);
  sample.node()->entries = 0;
  sample.Seal();
  sample.expected.keys = KeyRange();
  EXPECT_OK(sample.Check());
  const std::string refusal =
      "expected entries, as in every node but the only one of a tree, found none";
  ExpectRefused(
      true, [](Sample* s) { s->node()->entries = 0; }, refusal);
  ExpectRefused(
      false,
      [](Sample* s) {
        s->node()->entries = 0;
        s->expected.keys = KeyRange();
      },
      refusal);
}

TEST(ThinNodeTest, NamesKeysThatDoNotRiseOrLeaveTheRange) {
  for (const bool is_leaf : {true, false}) {
    ExpectRefused(
        is_leaf, [](Sample* s) { s->node()->keys()[4] = 130; },
        "expected key 4 from 131 to below 1000, found 130");
    ExpectRefused(
        is_leaf, [](Sample* s) { s->node()->keys()[9] = 1; },
        "expected key 9 from 181 to below 1000, found 1");
    ExpectRefused(
        is_leaf, [](Sample* s) { s->node()->keys()[0] = 99; },
        "expected key 0 from 100 to below 1000, found 99");
    ExpectRefused(
        is_leaf, [](Sample* s) { s->node()->keys()[9] = 1000; },
        "expected key 9 from 181 to below 1000, found 1000");
    ExpectRefused(
        is_leaf, [](Sample* s) { s->node()->keys()[5] = UINT64_MAX; },
        "expected key 5 from 141 to below 1000, found 18446744073709551615");
  }
}

TEST(ThinNodeTest, NamesChildrenOutsideTheMetadataTheSuperblockAndTheNodeItself) {
  for (const uint64_t child : {uint64_t{0}, kBlocks, kNumber, UINT64_MAX}) {
    ExpectRefused(
        false, [=](Sample* s) { s->node()->words()[7] = child; },
        "expected child 7 to be another block from 1 to below 1000, found " +
            std::to_string(child));
  }
  Sample sample = MakeSample(false);
  sample.node()->words()[7] = kBlocks - 1;
  sample.Seal();
  EXPECT_OK(sample.Check());
}

TEST(ThinNodeTest, RefusesARandomHeaderWithAValidChecksumOrStaysInsideTheBlock) {
  std::mt19937_64 random(test::Seed());
  for (int round = 0; round < 20'000; round++) {
    Sample sample = MakeSample(round % 2 == 0);
    for (int change = 0; change < 3; change++) {
      const size_t at = 4 + random() % (random() % 2 == 0 ? 28 : 200);
      sample.block[at] = static_cast<uint8_t>(random() % 4 == 0 ? random() : random() % 4);
    }
    sample.Seal();
    Result<NodeView> node = sample.Check();
    if (!node.ok()) continue;
    // With the sanitizer on, what lies outside of the sample is a crash.
    for (uint32_t i = 0; i < node->count(); i++) {
      EXPECT_TRUE(node->key(i) >= 100 && node->key(i) < 1000);
      EXPECT_TRUE(node->is_leaf() || node->value(i) < kBlocks);
    }
  }
}

}  // namespace
}  // namespace blockdelta
