// The superblock and the copy of a metadata snapshot: read when valid, refused field by field.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>

#include "native/thin/metadata_block.h"
#include "native/thin/superblock.h"
#include "native/thin/thin_format.h"
#include "test/native/status_assertions.h"
#include "test/native/thin_image_source.h"
#include "test/native/thin_scenario.h"

namespace blockdelta {
namespace {

using test::ThinImageSource;

test::ThinPool MakePool() {
  test::ThinScenario scenario;
  scenario.mapped = 1000;
  scenario.metadata_snapshot = true;
  scenario.changed_after = 10;
  return test::MakeThinPool(scenario);
}

// A field of a superblock, and a value it must not have.
struct Damage {
  size_t offset;
  size_t bytes;
  uint64_t value;
  const char* complaint;
};

void Apply(const Damage& damage, uint8_t* block) {
  std::memcpy(block + damage.offset, &damage.value, damage.bytes);
  const uint32_t checksum = ChecksumOf(block, kSuperblockSalt);
  std::memcpy(block, &checksum, sizeof(checksum));
}

void ExpectRefused(uint64_t number, const Damage& damage) {
  test::ThinPool pool = MakePool();
  ThinImageSource source(&pool.image);
  Apply(damage, source.block(number == 0 ? 0 : pool.held_root));
  Result<Superblock> superblock = ReadSuperblock(&source, number == 0 ? 0 : pool.held_root);
  EXPECT_CODE(superblock, "THIN_METADATA_INVALID");
  const std::string message = test::MessageOf(superblock);
  if (message.find(damage.complaint) == std::string::npos) {
    EXPECT_EQ(message, damage.complaint);
  }
}

using namespace superblock_format;

TEST(ThinSuperblockTest, ReadsThePoolFromASuperblockAndItsHeldCopy) {
  test::ThinPool pool = MakePool();
  ThinImageSource source(&pool.image);
  Result<Superblock> current = ReadSuperblock(&source, 0);
  ASSERT_OK(current);
  EXPECT_FALSE(current->needs_check);
  EXPECT_EQ(current->time, 2u);
  EXPECT_EQ(current->transaction_id, 3u);
  EXPECT_EQ(current->held_root, pool.held_root);
  EXPECT_EQ(current->data_block_bytes, 65'536u);
  EXPECT_EQ(current->data_blocks, pool.image.data_references().size());
  EXPECT_EQ(current->metadata_blocks, pool.image.block_count());
  Result<Superblock> held = ReadSuperblock(&source, pool.held_root);
  ASSERT_OK(held);
  EXPECT_EQ(held->held_root, 0u);
  EXPECT_EQ(held->data_blocks, 0u);
  EXPECT_EQ(held->metadata_blocks, pool.image.block_count());
  EXPECT_NE(held->mapping_root, current->mapping_root);
}

TEST(ThinSuperblockTest, ReportsAPoolThatNeedsACheckAndReadsIt) {
  test::ThinPool pool = MakePool();
  ThinImageSource source(&pool.image);
  Apply({kFlags, 4, 1, ""}, source.block(0));
  Result<Superblock> superblock = ReadSuperblock(&source, 0);
  EXPECT_OK(superblock);
  EXPECT_TRUE(superblock.ok() && superblock->needs_check);
}

TEST(ThinSuperblockTest, NamesEachFieldOutOfBoundsAndWhatItFound) {
  for (const Damage& damage : std::initializer_list<Damage>{
           {kOwnNumberOffset, 8, 5, "with this number, found number 5"},
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
           {kDetailsRoot, 8, 1'000'000, "a details root from 1 to below"}}) {
    ExpectRefused(0, damage);
    ExpectRefused(1, damage);
  }
}

TEST(ThinSuperblockTest, ChecksWhatOnlyTheCurrentSuperblockHasOnlyThere) {
  for (const Damage& damage : std::initializer_list<Damage>{
           {kHeldRoot, 8, 1'000'000, "a held root of 0 or from 1 to below"},
           {kDataSpaceMap + 8, 8, 1'000'000, "allocated data blocks up to"},
           {kMetadataSpaceMap, 8, 0, "metadata blocks in the space map from 1 to the"},
           {kMetadataSpaceMap, 8, 1'000'000, "metadata blocks in the space map from 1 to the"},
           {kMetadataSpaceMap + 8, 8, 1'000'000, "allocated metadata blocks up to"}}) {
    ExpectRefused(0, damage);
  }
}

TEST(ThinSuperblockTest, RefusesACopyThatHoldsACopyOrKnowsSpaceAsAMetadataSnapshot) {
  for (const Damage& damage : std::initializer_list<Damage>{
           {kHeldRoot, 8, 3, "a held root in a copy of 0, found 3"},
           {kDataSpaceMap, 8, 3, "data blocks in a copy to be 0, found 3"},
           {kMetadataSpaceMap, 8, 3, "in the space map of a copy to be 0, found 3"}}) {
    ExpectRefused(1, damage);
  }
}

TEST(ThinSuperblockTest, RefusesANodeABlockOfZerosAndADamagedSuperblock) {
  test::ThinPool pool = MakePool();
  ThinImageSource source(&pool.image);
  Result<Superblock> current = ReadSuperblock(&source, 0);
  ASSERT_OK(current);
  EXPECT_CODE(ReadSuperblock(&source, current->mapping_root), "THIN_METADATA_INVALID");
  EXPECT_CODE(ReadSuperblock(&source, source.block_count() - 1), "THIN_METADATA_INVALID");
  EXPECT_CODE(ReadSuperblock(&source, source.block_count()), "THIN_METADATA_INVALID");
  EXPECT_CODE(ReadSuperblock(&source, UINT64_MAX), "THIN_METADATA_INVALID");
  source.block(0)[100] ^= 1;
  EXPECT_CODE(ReadSuperblock(&source, 0), "THIN_METADATA_INVALID");
}

TEST(ThinSuperblockTest, RefusesMetadataTruncatedAnywhere) {
  test::ThinPool pool = MakePool();
  ThinImageSource source(&pool.image);
  source.Truncate(pool.image.block_count() - 1);
  EXPECT_CODE(ReadSuperblock(&source, 0), "THIN_METADATA_INVALID");
  source.Truncate(0);
  EXPECT_CODE(ReadSuperblock(&source, 0), "THIN_METADATA_INVALID");
}

// A source that is written to while it is read: the first reads come torn.
class TornSource final : public BlockSource {
 public:
  TornSource(ThinImageSource* whole, int torn) : whole_(whole), torn_(torn) {}

  const std::string& path() const override { return whole_->path(); }
  uint64_t block_count() const override { return whole_->block_count(); }
  size_t batch_blocks() const override { return 1; }
  Status Read(Span<const uint64_t> numbers, uint8_t* out) override {
    Status status = whole_->Read(numbers, out);
    if (torn_-- > 0) std::memset(out + 512, 0xff, 512);
    return status;
  }

 private:
  ThinImageSource* whole_;
  int torn_;
};

TEST(ThinSuperblockTest, ReadsASuperblockAgainThatIsBeingWrittenButNotForEver) {
  test::ThinPool pool = MakePool();
  ThinImageSource whole(&pool.image);
  TornSource torn(&whole, 3);
  EXPECT_OK(ReadSuperblock(&torn, 0));
  TornSource broken(&whole, 1000);
  EXPECT_CODE(ReadSuperblock(&broken, 0), "THIN_METADATA_INVALID");
}

}  // namespace
}  // namespace blockdelta
