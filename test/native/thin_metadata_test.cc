// What leads to mapping trees: checksums, nodes, the superblock and its copy, devices, and looking
// these up in a pool that commits meanwhile. Valid, and damaged one by one with right checksums.
// Damage of every other kind comes from test/fuzz.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "native/base/crc32c.h"
#include "native/thin/btree_node.h"
#include "native/thin/device_lookup.h"
#include "native/thin/device_tree.h"
#include "native/thin/file_source.h"
#include "native/thin/thin_format.h"
#include "test/native/pool.h"
#include "test/native/random_seed.h"
#include "test/native/status_assertions.h"
#include "test/native/thin_image_source.h"
#include "test/native/thin_scenario.h"

namespace blockdelta::test {
namespace {

void ExpectComplaint(const Status& status, const std::string& complaint) {
  EXPECT_CODE(status, kThinMetadataInvalid);
  EXPECT_NE(MessageOf(status).find(complaint), std::string::npos)
      << complaint << ", but " << MessageOf(status);
}

TEST(Crc32cTest, GivesTheValuesOfRfc3720ByInstructionAndByTables) {
  std::string rising;
  for (int i = 0; i < 32; i++) rising.push_back(static_cast<char>(i));
  const std::pair<std::string, uint32_t> values[] = {
      {"", 0u},
      {"123456789", 0xe3069283u},
      {std::string(32, '\0'), 0x8a9136aau},
      {std::string(32, '\xff'), 0x62a8ab43u},
      {rising, 0x46dd794eu},
      {std::string(rising.rbegin(), rising.rend()), 0x113fdb5cu}};
  for (const auto& [text, crc] : values) {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(text.data());
    EXPECT_EQ(~Crc32c(UINT32_MAX, bytes, text.size()), crc);
    EXPECT_EQ(~PortableCrc32c(UINT32_MAX, bytes, text.size()), crc);
  }
}

TEST(Crc32cTest, AgreesBetweenProcessorAndTables) {
  std::mt19937_64 random(Seed());
  std::vector<uint8_t> bytes(9000);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  for (int round = 0; round < 2000; round++) {
    const size_t begin = random() % 100;
    const size_t length = random() % (round % 2 == 0 ? 100 : 8900);
    const auto crc = static_cast<uint32_t>(random());
    EXPECT_EQ(Crc32c(crc, bytes.data() + begin, length),
              PortableCrc32c(crc, bytes.data() + begin, length));
  }
}

constexpr uint64_t kNumber = 17;
constexpr uint64_t kBlocks = 1000;

// A node of a tree, and what it has to be. Ten entries: keys 100, 110, ...; values 50, 51, ...
struct Sample {
  explicit Sample(bool is_leaf) {
    *node() = {0, is_leaf ? 2u : 1u, kNumber, 10, 252, 8, 0};
    for (uint32_t i = 0; i < 10; i++) {
      node()->keys()[i] = 100 + i * 10;
      node()->words()[i] = 50 + i;
    }
    node()->Seal();
  }
  DiskNode* node() { return DiskNode::At(block); }
  Result<NodeView> Check() const { return CheckNode(block, expected, "metadata"); }

  alignas(8) uint8_t block[kMetadataBlockBytes] = {};
  NodeExpectation expected = {kNumber, {100, 1000}, kMappingValueBytes, kBlocks};
};

TEST(ThinNodeTest, RefusesANodeWithAnyBitChanged) {
  Sample sample(true);
  for (size_t bit = 0; bit < kMetadataBlockBytes * 8; bit += bit < 2000 ? 1 : 37) {
    sample.block[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    EXPECT_CODE(sample.Check(), kThinMetadataInvalid);
    sample.block[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
  }
  EXPECT_OK(sample.Check());
}

TEST(ThinNodeTest, RefusesABlockOfAnotherKindOrFromAnotherPlace) {
  Sample sample(true);
  constexpr uint32_t kBitmapSalt = 240'779;
  sample.node()->Seal(kBitmapSalt);
  EXPECT_CODE(sample.Check(), kThinMetadataInvalid);
  std::memset(sample.block, 0, sizeof(sample.block));
  EXPECT_CODE(sample.Check(), kThinMetadataInvalid);
  sample = Sample(true);
  sample.node()->number = 18;
  sample.node()->Seal();
  ExpectComplaint(sample.Check().status(),
                  "block 17 of metadata: expected a btree node with this number, found number 18");
}

TEST(ThinNodeTest, APackedNodeKeepsItsEntriesInNoMoreBytesThanItsKeysPermit) {
  Sample sample(true);
  DiskNode* const node = sample.node();
  node->max_entries = 254;
  alignas(8) uint8_t block[kMetadataBlockBytes];
  for (const uint64_t step : {uint64_t{1}, uint64_t{2}, uint64_t{300}, UINT64_MAX / 256}) {
    for (const uint32_t count : {0, 1, 2, 253, 254}) {
      for (const ValuePart part :
           {ValuePart{0, 3}, ValuePart{3, 1}, ValuePart{3, 5}, ValuePart()}) {
        node->entries = count;
        for (uint32_t i = 0; i < count; i++) {
          node->keys()[i] = 5 + i * step;
          node->words()[i] = UINT64_MAX - i * (UINT64_MAX / 255);
        }
        const KeyRange keys = {5, count == 0 ? 6 : 5 + (count - 1) * step + 1};
        std::vector<uint8_t> packed(kMetadataBlockBytes + kPackedSlack);
        const uint8_t* const end = PackNode(NodeView(sample.block), part, packed.data());
        EXPECT_LE(end - packed.data(), MaxPackedBytes(keys, part));
        EXPECT_LE(MaxPackedBytes(keys, part), kMetadataBlockBytes);
        const NodeView view = UnpackNode(packed.data(), block);
        EXPECT_TRUE(view.is_leaf());
        ASSERT_EQ(view.count(), count);
        const uint64_t mask = UINT64_MAX >> (64 - 8 * part.bytes) << 8 * part.first;
        for (uint32_t i = 0; i < count; i++) {
          EXPECT_EQ(view.key(i), node->keys()[i]);
          EXPECT_EQ(view.value(i), node->words()[i] & mask);
        }
      }
    }
  }
}

struct NodeCase {
  bool is_leaf;
  std::function<void(Sample*)> damage;
  std::string complaint;  // Empty: it is none.
};

std::vector<NodeCase> NodeCases() {
  const std::string no_entries =
      "expected entries, as in every node but the only one of a tree, found none";
  std::vector<NodeCase> cases = {
      {true, [](Sample* s) { s->node()->value_bytes = 4; },
       "expected values of 8 bytes in a leaf, found values of 4"},
      {true, [](Sample* s) { s->expected.leaf_value_bytes = 24; },
       "expected values of 24 bytes in a leaf, found values of 8"},
      {false, [](Sample* s) { s->node()->value_bytes = 24; },
       "expected values of 8 bytes in an internal node, found values of 24"},
      {false, [](Sample* s) { s->expected.leaf_value_bytes = 24; }, ""},
      {true, [](Sample* s) { s->node()->max_entries = 254; }, ""},
      {true, [](Sample* s) { s->node()->max_entries = 0; }, "expected at most 0 entries, found 10"},
      {true, [](Sample* s) { s->node()->entries = 0; }, no_entries},
      {false, [](Sample* s) { s->node()->entries = 0, s->expected.keys = KeyRange(); }, no_entries},
      // The sole leaf of an empty tree.
      {true, [](Sample* s) { s->node()->entries = 0, s->expected.keys = KeyRange(); }, ""},
      {false, [](Sample* s) { s->node()->words()[7] = kBlocks - 1; }, ""}};
  for (const uint32_t flags : {0u, 3u, 4u, 6u}) {
    cases.push_back({true, [=](Sample* s) { s->node()->flags = flags; },
                     "expected a node with flags 1 (internal) or 2 (leaf), found flags " +
                         std::to_string(flags)});
  }
  for (const uint32_t room : {255u, 4096u, 0x80000000u, UINT32_MAX}) {
    cases.push_back({true, [=](Sample* s) { s->node()->max_entries = room; },
                     "expected room for at most 254 entries, found " + std::to_string(room)});
  }
  for (const uint32_t entries : {253u, UINT32_MAX}) {
    cases.push_back({true, [=](Sample* s) { s->node()->entries = entries; },
                     "expected at most 252 entries, found " + std::to_string(entries)});
  }
  for (const uint64_t child : {uint64_t{0}, kBlocks, kNumber, UINT64_MAX}) {
    cases.push_back({false, [=](Sample* s) { s->node()->words()[7] = child; },
                     "expected child 7 to be another block from 1 to below 1000, found " +
                         std::to_string(child)});
  }
  struct BadKey {
    size_t index;
    uint64_t key;
    const char* least;
  };
  for (const BadKey& bad : {BadKey{4, 130, "131"}, BadKey{9, 1, "181"}, BadKey{0, 99, "100"},
                            BadKey{9, 1000, "181"}, BadKey{5, UINT64_MAX, "141"}}) {
    for (const bool is_leaf : {true, false}) {
      cases.push_back({is_leaf, [=](Sample* s) { s->node()->keys()[bad.index] = bad.key; },
                       "expected key " + std::to_string(bad.index) + " from " + bad.least +
                           " to below 1000, found " + std::to_string(bad.key)});
    }
  }
  return cases;
}

TEST(ThinNodeTest, NamesWhatIsWrongWithANodeAndWhatItFound) {
  for (const NodeCase& each : NodeCases()) {
    Sample sample(each.is_leaf);
    each.damage(&sample);
    sample.node()->Seal();
    Result<NodeView> node = sample.Check();
    if (each.complaint.empty()) {
      EXPECT_OK(node);
    } else {
      EXPECT_EQ(MessageOf(node), "block 17 of metadata: " + each.complaint);
      EXPECT_CODE(node, kThinMetadataInvalid);
    }
  }
}

ThinPool PoolOf(uint64_t mapped, uint64_t snapshots, bool is_held = false) {
  ThinScenario scenario;
  scenario.mapped = mapped;
  scenario.snapshots = snapshots;
  scenario.empty_device = !is_held;
  scenario.metadata_snapshot = is_held;
  scenario.changed_after = is_held ? 10 : 0;
  return MakeThinPool(scenario);
}

Superblock SuperblockOf(BlockSource* source, uint64_t number) {
  return ValueOf(ReadSuperblock(source, number));
}

using namespace superblock_format;

TEST(ThinSuperblockTest, ReadsThePoolFromASuperblockAndItsHeldCopy) {
  const ThinPool pool = PoolOf(1000, 2, true);
  ThinImageSource source(pool.image);
  const Superblock current = SuperblockOf(&source, 0);
  EXPECT_FALSE(current.needs_check);
  EXPECT_EQ(current.time, 2u);
  EXPECT_EQ(current.transaction_id, 3u);
  EXPECT_EQ(current.held_root, pool.held_root);
  EXPECT_EQ(current.data_block_bytes, 65'536u);
  EXPECT_EQ(current.data_blocks, ReadLe64(source.block(0) + kDataSpaceMap));
  EXPECT_EQ(current.metadata_blocks, pool.blocks());
  const Superblock held = SuperblockOf(&source, pool.held_root);
  EXPECT_EQ(held.held_root, 0u);
  EXPECT_EQ(held.data_blocks, 0u);
  EXPECT_EQ(held.metadata_blocks, pool.blocks());
  EXPECT_NE(held.mapping_root, current.mapping_root);
  source.block(0)[kFlags] = 1;
  source.node(0)->Seal(kSuperblockSalt);
  EXPECT_TRUE(SuperblockOf(&source, 0).needs_check);
}

// A field of a superblock, and a value it must not have.
struct Damage {
  size_t offset;
  size_t bytes;
  uint64_t value;
  const char* complaint;
};

void ExpectRefused(bool is_copy, std::initializer_list<Damage> list) {
  const ThinPool pool = PoolOf(1000, 2, true);
  const uint64_t number = is_copy ? pool.held_root : 0;
  for (const Damage& damage : list) {
    ThinImageSource source(pool.image);
    std::memcpy(source.block(number) + damage.offset, &damage.value, damage.bytes);
    source.node(number)->Seal(kSuperblockSalt);
    ExpectComplaint(ReadSuperblock(&source, number).status(), damage.complaint);
  }
}

TEST(ThinSuperblockTest, NamesEachFieldOutOfBoundsAndWhatItFound) {
  for (const bool is_copy : {false, true}) {
    ExpectRefused(
        is_copy,
        {{kOwnNumberOffset, 8, 5, "with this number, found number 5"},
         {kMagic, 8, 27'022'011, "expected magic 27022010, found 27022011"},
         {kVersion, 4, 1, "expected version 2, found 1"},
         {kVersion, 4, 3, "expected version 2, found 3"},
         {kIncompatFlags, 4, 0x80, "expected no incompatible features, flags 0, found 128"},
         {kDataBlockSectors, 4, 0, "data block size in sectors"},
         {kDataBlockSectors, 4, 64, "data block size in sectors"},
         {kDataBlockSectors, 4, 192, "a multiple of 128, found 192"},
         {kDataBlockSectors, 4, 2'097'280, "data block size in sectors"},
         {kMetadataBlockSectors, 4, 16, "metadata block size in sectors of 8, found 16"},
         {kMetadataBlocks, 8, 0, "a number of metadata blocks from 1 to 4161600, found 0"},
         {kMetadataBlocks, 8, 4'161'601, "a number of metadata blocks"},
         {kMappingRoot, 8, 0, "a mapping root from 1 to below"},
         {kMappingRoot, 8, UINT64_MAX, "a mapping root from 1 to below"},
         {kDetailsRoot, 8, 0, "a details root from 1 to below"},
         {kDetailsRoot, 8, 1'000'000, "a details root from 1 to below"}});
  }
  ExpectRefused(
      false, {{kHeldRoot, 8, 1'000'000, "a held root of 0 or from 1 to below"},
              {kDataSpaceMap + 8, 8, 1'000'000, "allocated data blocks up to"},
              {kMetadataSpaceMap, 8, 0, "metadata blocks in the space map from 1 to the"},
              {kMetadataSpaceMap, 8, 1'000'000, "metadata blocks in the space map from 1 to the"},
              {kMetadataSpaceMap + 8, 8, 1'000'000, "allocated metadata blocks up to"}});
  ExpectRefused(true, {{kHeldRoot, 8, 3, "a held root in a copy of 0, found 3"},
                       {kDataSpaceMap, 8, 3, "data blocks in a copy to be 0, found 3"},
                       {kMetadataSpaceMap, 8, 3, "in the space map of a copy to be 0, found 3"}});
}

TEST(ThinSuperblockTest, RefusesOtherBlocksDamagedAndTruncatedMetadata) {
  const ThinPool pool = PoolOf(1000, 2, true);
  ThinImageSource source(pool.image);
  const uint64_t node = SuperblockOf(&source, 0).mapping_root;
  for (const uint64_t number : {node, pool.blocks() - 1, pool.blocks(), UINT64_MAX}) {
    EXPECT_CODE(ReadSuperblock(&source, number), kThinMetadataInvalid);
  }
  source.block(0)[100] ^= 1;
  EXPECT_CODE(ReadSuperblock(&source, 0), kThinMetadataInvalid);
  for (const uint64_t blocks : {pool.blocks() - 1, uint64_t{0}}) {
    ThinImageSource truncated(pool.image);
    truncated.Truncate(blocks);
    EXPECT_CODE(ReadSuperblock(&truncated, 0), kThinMetadataInvalid);
  }
}

TEST(ThinSuperblockTest, ReadsASuperblockAgainThatIsBeingWrittenButNotForEver) {
  const ThinPool pool = PoolOf(10, 1);
  for (const int torn : {3, 1000}) {
    ThinImageSource source(pool.image);
    source.AfterRead([left = torn](uint8_t* block) mutable {
      if (left-- > 0) std::memset(block + 512, 0xff, 512);
    });
    EXPECT_CODE(ReadSuperblock(&source, 0), torn == 3 ? "" : kThinMetadataInvalid);
  }
}

bool IsSame(const ThinDevice& a, const TreeDevice& b) {
  return a.id == b.id && a.root == b.root && a.mapped_blocks == b.mapped &&
         a.transaction_id == b.transaction_id && a.creation_time == b.created &&
         a.snapshotted_time == b.snapshotted;
}

bool AreSame(const std::vector<ThinDevice>& found, const std::vector<TreeDevice>& expected) {
  return std::equal(found.begin(), found.end(), expected.begin(), expected.end(), IsSame);
}

TEST(ThinDeviceTest, ReadsCurrentAndHeldDevicesOfKernelWrittenMetadata) {
  TempDirectory directory;
  const std::string path = directory.At("metadata");
  if (!RunCommand("zstd -d --sparse test/fixtures/thin-metadata-kernel-6.1.bin.zst -o " + path)) {
    GTEST_SKIP() << "zstd is not installed";
  }
  ASSERT_VALUE(source, OpenBlockSource(path));
  const Superblock current = SuperblockOf(source.get(), 0);
  EXPECT_EQ(current.time, 3u);
  EXPECT_EQ(current.transaction_id, 0u);
  EXPECT_EQ(current.held_root, 20'996u);
  EXPECT_EQ(current.mapping_root, 23'284u);
  EXPECT_EQ(current.details_root, 23'308u);
  EXPECT_EQ(current.data_block_bytes, 65'536u);
  EXPECT_EQ(current.data_blocks, 33'554'432u);
  EXPECT_EQ(current.metadata_blocks, 32'768u);
  const Superblock held = SuperblockOf(source.get(), current.held_root);
  EXPECT_EQ(held.mapping_root, 20'991u);
  EXPECT_EQ(held.details_root, 20'992u);
  EXPECT_EQ(held.data_blocks, 0u);
  for (const bool is_held : {false, true}) {
    ASSERT_VALUE(list,
                 ListThinDevices(source.get(), is_held ? held : current, WantedKeys::All(), 100));
    EXPECT_TRUE(AreSame(list.devices, {{1, is_held ? 20'979u : 23'286u, 0, 3, 0, 253'322},
                                       {2, 19'481, 1, 1, 0, 253'322},
                                       {3, 20'602, 2, 2, 0, 253'322},
                                       {4, 20'979, 3, 3, 0, 253'322}}));
    EXPECT_FALSE(list.truncated);
  }
}

TEST(ThinDeviceTest, FindsTheDevicesOfGeneratedPoolsAllSomeAndOneByOne) {
  for (const uint64_t snapshots : {0, 1, 125, 126, 600}) {
    const ThinPool pool = PoolOf(300, snapshots);
    ThinImageSource source(pool.image);
    const Superblock superblock = SuperblockOf(&source, 0);
    const uint64_t last = pool.devices.size();
    for (const size_t limit : {uint64_t{1}, last - 1, last, uint64_t{5000}}) {
      ASSERT_VALUE(all, ListThinDevices(&source, superblock, WantedKeys::All(), limit));
      EXPECT_EQ(all.truncated, limit < last);
      const auto end = pool.devices.begin() + static_cast<ptrdiff_t>(std::min(limit, last));
      EXPECT_TRUE(AreSame(all.devices, {pool.devices.begin(), end}));
    }
    const WantedKeys some = WantedKeys::Only({600, 1, 127, 0, 5000, 127});
    ASSERT_VALUE(list, ListThinDevices(&source, superblock, some, 5000));
    std::vector<TreeDevice> expected;
    for (const uint64_t id : {1, 127, 600}) {
      if (id <= last) expected.push_back(pool.devices[id - 1]);
    }
    EXPECT_TRUE(AreSame(list.devices, expected));
    const uint64_t before = source.reads();
    ASSERT_VALUE(device, FindThinDevice(&source, superblock, last));
    EXPECT_TRUE(IsSame(device, pool.devices[last - 1]));
    // One path of each tree: two levels above 126 devices.
    EXPECT_LE(source.reads() - before, last > 126 ? 4u : 2u);
    ASSERT_VALUE(root, FindThinRoot(&source, superblock, last));
    EXPECT_EQ(root, pool.devices[last - 1].root);
    for (const uint64_t id : {uint64_t{0}, last + 1, kMaxDeviceId, UINT64_MAX}) {
      EXPECT_CODE(FindThinDevice(&source, superblock, id), "ENODATA");
      EXPECT_CODE(FindThinRoot(&source, superblock, id), "ENODATA");
    }
  }
}

// The two trees of a pool, there to be damaged.
struct Trees {
  DiskNode* mappings() { return source.node(superblock.mapping_root); }
  DiskNode* details() { return source.node(superblock.details_root); }
  DiskNode* child(size_t index) { return source.node(mappings()->words()[index]); }

  ThinImageSource source;
  Superblock superblock;
};

struct DeviceCase {
  uint64_t snapshots;
  std::function<void(Trees*)> damage;
  std::string complaint;
};

// Removes the key, and moves the values of 8 bytes with it.
void Remove(DiskNode* node, uint32_t index) {
  node->entries--;
  for (uint32_t i = index; i < node->entries; i++) {
    node->keys()[i] = node->keys()[i + 1];
    node->words()[i] = node->words()[i + 1];
  }
}

// The leaf becomes an internal node with one child.
void MakeInternal(DiskNode* leaf, uint64_t child) {
  leaf->flags = leaf->entries = 1;
  leaf->words()[0] = child;
  leaf->Seal();
}

TEST(ThinDeviceTest, NamesWhatIsWrongWithTheTreesOfDevices) {
  std::vector<DeviceCase> cases = {
      {3, [](Trees* trees) { trees->mappings()->keys()[3] = 1 << 24; },
       "expected key 3 from 4 to below 16777216"},
      {1000, [](Trees* trees) { MakeInternal(trees->child(1), trees->mappings()->words()[0]); },
       "expected a leaf as before it, found an internal node"},
      {1000, [](Trees* trees) { MakeInternal(trees->child(0), trees->mappings()->words()[1]); },
       "expected an internal node as before it, found a leaf"},
      {1000,
       [](Trees* trees) {
         MakeInternal(trees->child(0), trees->superblock.mapping_root);
         trees->mappings()->entries = 1;
       },
       "expected a tree of at most 10 levels"}};
  for (const uint32_t gone : {0, 1, 3}) {
    const std::string id = std::to_string(gone + 1);
    cases.push_back({3, [=](Trees* trees) { Remove(trees->mappings(), gone); },
                     "expected no details of device " + id});
    cases.push_back({3, [=](Trees* trees) { Remove(trees->details(), gone); },
                     "expected details of device " + id});
  }
  for (const uint64_t root : {uint64_t{0}, uint64_t{1} << 40, UINT64_MAX}) {
    cases.push_back({3, [=](Trees* trees) { trees->mappings()->words()[2] = root; },
                     "expected the root of device 3 below it from 1 to below"});
  }
  for (const DeviceCase& each : cases) {
    Trees trees = {ThinImageSource(PoolOf(10, each.snapshots).image), {}};
    trees.superblock = SuperblockOf(&trees.source, 0);
    each.damage(&trees);
    trees.mappings()->Seal();
    trees.details()->Seal();
    ExpectComplaint(
        ListThinDevices(&trees.source, trees.superblock, WantedKeys::All(), 100'000).status(),
        each.complaint);
  }
}

// Commits after each of its next reads: another time, in a superblock that leads to the same roots.
class CommittingSource {
 public:
  CommittingSource(const ThinPool& pool, unsigned commits) : source(pool.image), left(commits) {
    source.AfterRead([this](uint8_t*) {
      if (left == 0) return;
      left--;
      uint8_t* const time = source.block(0) + kTime;
      const uint32_t later = ReadLe32(time) + 1;
      std::memcpy(time, &later, sizeof(later));
      source.node(0)->Seal(kSuperblockSalt);
    });
  }

  ThinImageSource source;
  unsigned left;
};

TEST(ThinLookupTest, ReadsAgainUntilNoCommitComesBetweenItsReads) {
  const ThinPool pool = PoolOf(300, 2);
  CommittingSource looked_up(pool, 25);
  ASSERT_VALUE(lookup, LookUpDevices(&looked_up.source, 0, {2, 3}));
  EXPECT_EQ(looked_up.left, 0u);
  EXPECT_EQ(lookup.devices[0].root, pool.devices[1].root);
  EXPECT_EQ(lookup.devices[1].root, pool.devices[2].root);
  CommittingSource confirmed(pool, 25);
  EXPECT_OK(
      ConfirmDevices(&confirmed.source, 0, {{2, pool.devices[1].root}, {3, pool.devices[2].root}}));
  EXPECT_EQ(confirmed.left, 0u);
}

TEST(ThinLookupTest, FailsWithScanBusyWhenAPoolCommitsWithoutAPause) {
  const ThinPool pool = PoolOf(300, 2);
  CommittingSource committing(pool, UINT32_MAX);
  EXPECT_CODE(LookUpDevices(&committing.source, 0, {2}), kScanBusy);
  EXPECT_CODE(LookUpDevices(&committing.source, 0, {99}), kScanBusy);
  EXPECT_CODE(ConfirmDevices(&committing.source, 0, {{2, pool.devices[1].root}}), kScanBusy);
}

TEST(ThinLookupTest, ConfirmsTwoRootsByOnePathOfOneTreeEachAndTheSuperblockTwice) {
  const ThinPool pool = PoolOf(300, 2);
  ThinImageSource source(pool.image);
  EXPECT_OK(ConfirmDevices(&source, 0, {{2, pool.devices[1].root}, {3, pool.devices[2].root}}));
  EXPECT_EQ(source.reads(), 4u);
  EXPECT_CODE(ConfirmDevices(&source, 0, {{2, pool.devices[0].root}}), kScanReplaced);
  EXPECT_CODE(ConfirmDevices(&source, 0, {{99, pool.devices[0].root}}), kScanReplaced);
  // By a metadata snapshot that is not held any more.
  EXPECT_CODE(ConfirmDevices(&source, 5, {{2, pool.devices[1].root}}), kScanReplaced);
}

}  // namespace
}  // namespace blockdelta::test
