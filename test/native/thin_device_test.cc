// Devices of a pool: those a kernel wrote, those of generated pools, and trees that are not sound.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "native/thin/device_tree.h"
#include "native/thin/file_source.h"
#include "native/thin/metadata_block.h"
#include "native/thin/thin_format.h"
#include "test/native/pool.h"
#include "test/native/status_assertions.h"
#include "test/native/thin_image_source.h"
#include "test/native/thin_scenario.h"

namespace blockdelta {
namespace {

using test::ThinImageSource;

bool IsSame(const ThinDevice& a, const test::ThinScenarioDevice& b) {
  return a.id == b.id && a.root == b.root && a.mapped_blocks == b.mapped &&
         a.transaction_id == b.transaction_id && a.creation_time == b.created &&
         a.snapshotted_time == b.snapshotted;
}

bool AreSame(const std::vector<ThinDevice>& found,
             const std::vector<test::ThinScenarioDevice>& expected) {
  return std::equal(found.begin(), found.end(), expected.begin(), expected.end(), IsSame);
}

Superblock SuperblockOf(BlockSource* source, uint64_t number) {
  Result<Superblock> superblock = ReadSuperblock(source, number);
  EXPECT_OK(superblock);
  return superblock.ok() ? *superblock : Superblock();
}

TEST(ThinDeviceTest, ReadsCurrentAndHeldDevicesOfKernelWrittenMetadata) {
  test::TempDirectory directory;
  const std::string path = directory.At("metadata");
  if (!test::RunCommand("zstd -d --sparse test/fixtures/thin-metadata-kernel-6.1.bin.zst -o " +
                        path)) {
    GTEST_SKIP() << "zstd is not installed";
  }
  Result<std::unique_ptr<BlockSource>> source = OpenBlockSource(path);
  ASSERT_OK(source);
  const Superblock current = SuperblockOf(source->get(), 0);
  EXPECT_EQ(current.time, 3u);
  EXPECT_EQ(current.transaction_id, 0u);
  EXPECT_EQ(current.held_root, 20'996u);
  EXPECT_EQ(current.mapping_root, 23'284u);
  EXPECT_EQ(current.details_root, 23'308u);
  EXPECT_EQ(current.data_block_bytes, 65'536u);
  EXPECT_EQ(current.data_blocks, 33'554'432u);
  EXPECT_EQ(current.metadata_blocks, 32'768u);
  const Superblock held = SuperblockOf(source->get(), current.held_root);
  EXPECT_EQ(held.mapping_root, 20'991u);
  EXPECT_EQ(held.details_root, 20'992u);
  EXPECT_EQ(held.data_blocks, 0u);
  for (const bool is_held : {false, true}) {
    Result<ThinDeviceList> list =
        ListThinDevices(source->get(), is_held ? held : current, WantedKeys::All(), 100);
    ASSERT_OK(list);
    EXPECT_TRUE(AreSame(list->devices, {{1, is_held ? 20'979u : 23'286u, 253'322, 0, 0, 3},
                                        {2, 19'481, 253'322, 0, 1, 1},
                                        {3, 20'602, 253'322, 0, 2, 2},
                                        {4, 20'979, 253'322, 0, 3, 3}}));
    EXPECT_FALSE(list->truncated);
  }
}

TEST(ThinDeviceTest, FindsTheDevicesOfGeneratedPoolsAllSomeAndOneByOne) {
  for (const uint64_t snapshots : {0, 1, 125, 126, 600}) {
    test::ThinScenario scenario;
    scenario.mapped = 300;
    scenario.snapshots = snapshots;
    scenario.empty_device = true;
    test::ThinPool pool = test::MakeThinPool(scenario);
    ThinImageSource source(&pool.image);
    const Superblock superblock = SuperblockOf(&source, 0);
    Result<ThinDeviceList> all = ListThinDevices(&source, superblock, WantedKeys::All(), 5000);
    ASSERT_OK(all);
    EXPECT_TRUE(AreSame(all->devices, pool.devices));
    EXPECT_FALSE(all->truncated);
    const WantedKeys some = WantedKeys::Only({600, 1, 127, 0, 5000, 127});
    Result<ThinDeviceList> list = ListThinDevices(&source, superblock, some, 5000);
    ASSERT_OK(list);
    std::vector<test::ThinScenarioDevice> expected;
    for (const uint64_t id : {1, 127, 600}) {
      if (id <= pool.devices.size()) expected.push_back(pool.devices[id - 1]);
    }
    EXPECT_TRUE(AreSame(list->devices, expected));
    const uint64_t last = pool.devices.size();
    Result<ThinDevice> device = FindThinDevice(&source, superblock, last);
    ASSERT_OK(device);
    EXPECT_TRUE(IsSame(*device, pool.devices[last - 1]));
    Result<uint64_t> root = FindThinRoot(&source, superblock, last);
    ASSERT_OK(root);
    EXPECT_EQ(*root, pool.devices[last - 1].root);
    for (const uint64_t id : {uint64_t{0}, last + 1, kMaxDeviceId, UINT64_MAX}) {
      EXPECT_CODE(FindThinDevice(&source, superblock, id), "ENODATA");
      EXPECT_CODE(FindThinRoot(&source, superblock, id), "ENODATA");
    }
  }
}

TEST(ThinDeviceTest, ReadsOnePathOfEachTreeToFindOneDevice) {
  test::ThinScenario scenario;
  scenario.mapped = 10;
  scenario.snapshots = 2000;
  test::ThinPool pool = test::MakeThinPool(scenario);
  ThinImageSource source(&pool.image);
  const Superblock superblock = SuperblockOf(&source, 0);
  const uint64_t before = source.reads();
  EXPECT_OK(FindThinDevice(&source, superblock, 1000));
  EXPECT_EQ(source.reads() - before, 4u);
}

TEST(ThinDeviceTest, ReportsThatAListThatIsTooLongIsTruncated) {
  test::ThinScenario scenario;
  scenario.mapped = 10;
  scenario.snapshots = 299;
  test::ThinPool pool = test::MakeThinPool(scenario);
  ThinImageSource source(&pool.image);
  const Superblock superblock = SuperblockOf(&source, 0);
  for (const size_t limit : {1, 126, 127, 252, 299}) {
    Result<ThinDeviceList> list = ListThinDevices(&source, superblock, WantedKeys::All(), limit);
    ASSERT_OK(list);
    EXPECT_TRUE(list->truncated && list->devices.size() == limit);
  }
  Result<ThinDeviceList> list = ListThinDevices(&source, superblock, WantedKeys::All(), 300);
  ASSERT_OK(list);
  EXPECT_TRUE(!list->truncated && list->devices.size() == 300);
}

// A pool whose two trees are there to be damaged.
class Trees {
 public:
  explicit Trees(uint64_t snapshots) : pool_(MakePool(snapshots)), source_(&pool_.image) {
    superblock_ = SuperblockOf(&source_, 0);
  }

  test::DiskNode* mapping_root() { return Node(superblock_.mapping_root); }
  test::DiskNode* details_root() { return Node(superblock_.details_root); }
  test::DiskNode* Node(uint64_t number) {
    return reinterpret_cast<test::DiskNode*>(source_.block(number));
  }
  ThinImageSource* source() { return &source_; }
  const Superblock& superblock() const { return superblock_; }

  void Seal(test::DiskNode* node) {
    auto* block = reinterpret_cast<uint8_t*>(node);
    const uint32_t checksum = ChecksumOf(block, kNodeSalt);
    std::memcpy(block, &checksum, sizeof(checksum));
  }

  // What listing all devices fails with.
  std::string Complaint() {
    Result<ThinDeviceList> list =
        ListThinDevices(&source_, superblock_, WantedKeys::All(), 100'000);
    EXPECT_CODE(list, "THIN_METADATA_INVALID");
    return test::MessageOf(list);
  }

 private:
  static test::ThinPool MakePool(uint64_t snapshots) {
    test::ThinScenario scenario;
    scenario.mapped = 10;
    scenario.snapshots = snapshots;
    return test::MakeThinPool(scenario);
  }

  test::ThinPool pool_;
  ThinImageSource source_;
  Superblock superblock_;
};

TEST(ThinDeviceTest, RefusesTreesThatDoNotHoldTheSameDevices) {
  for (const uint32_t gone : {0, 1, 3}) {
    Trees mappings(3);
    mappings.mapping_root()->Remove(gone);
    mappings.Seal(mappings.mapping_root());
    const std::string id = std::to_string(gone + 1);
    EXPECT_NE(mappings.Complaint().find("expected no details of device " + id), std::string::npos);
    Trees details(3);
    test::DiskNode* root = details.details_root();
    std::memmove(root->keys() + gone, root->keys() + gone + 1, (3 - gone) * 8);
    root->entries--;
    details.Seal(root);
    EXPECT_NE(details.Complaint().find("expected details of device " + id), std::string::npos);
  }
}

TEST(ThinDeviceTest, RefusesARootOutsideTheMetadata) {
  for (const uint64_t root : {uint64_t{0}, uint64_t{1} << 40, UINT64_MAX}) {
    Trees trees(3);
    trees.mapping_root()->words()[2] = root;
    trees.Seal(trees.mapping_root());
    EXPECT_NE(trees.Complaint().find("expected the root of device 3 below it from 1 to below"),
              std::string::npos);
  }
}

TEST(ThinDeviceTest, RefusesADeviceIdOfMoreThan24Bits) {
  Trees trees(3);
  trees.mapping_root()->keys()[3] = 1 << 24;
  trees.Seal(trees.mapping_root());
  EXPECT_NE(trees.Complaint().find("expected key 3 from 4 to below 16777216"), std::string::npos);
}

TEST(ThinDeviceTest, RefusesATreeWhoseLeavesLieOnDifferentLevels) {
  Trees trees(1000);
  test::DiskNode* root = trees.mapping_root();
  // The second child becomes an internal node with one child, the first leaf.
  test::DiskNode* second = trees.Node(root->words()[1]);
  second->flags = 1;
  second->entries = 1;
  second->words()[0] = root->words()[0];
  trees.Seal(second);
  EXPECT_NE(trees.Complaint().find("expected a leaf as before it, found an internal node"),
            std::string::npos);
}

TEST(ThinDeviceTest, FailsWhenATreeLeadsBackIntoItself) {
  Trees trees(1000);
  test::DiskNode* root = trees.mapping_root();
  test::DiskNode* first = trees.Node(root->words()[0]);
  first->flags = 1;
  first->entries = 1;
  first->words()[0] = root->number;
  trees.Seal(first);
  root->entries = 1;
  trees.Seal(root);
  EXPECT_NE(trees.Complaint().find("expected a tree of at most 10 levels"), std::string::npos);
}

TEST(ThinDeviceTest, RefusesMetadataThatEndsInsideATreeWhateverBlockComesLast) {
  Trees whole(600);
  const uint64_t blocks = whole.source()->block_count();
  for (uint64_t end = 0; end < std::min<uint64_t>(blocks, 60); end++) {
    Trees trees(600);
    trees.source()->Truncate(end);
    Result<ThinDeviceList> list =
        ListThinDevices(trees.source(), trees.superblock(), WantedKeys::All(), 100'000);
    if (!list.ok()) {
      EXPECT_CODE(list, "THIN_METADATA_INVALID");
    }
    if (list.ok()) {
      EXPECT_EQ(list->devices.size(), 601u);
    }
  }
}

}  // namespace
}  // namespace blockdelta
