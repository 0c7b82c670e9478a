// File extent items of btrfs: what each kind proves, and that no number is trusted.
#include "native/scan/btrfs_item.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "native/scan/interval_walk.h"
#include "test/native/random_seed.h"
#include "test/native/status_assertions.h"

namespace blockdelta::test {
namespace {

// As it lies on disk.
struct __attribute__((packed)) Item {
  uint64_t generation = 7;
  uint64_t ram_bytes = 131072;
  uint8_t compression = 0;
  uint8_t encryption = 0;
  uint16_t other_encoding = 0;
  uint8_t type = 1;
  uint64_t disk_bytenr = 1 << 20;
  uint64_t disk_num_bytes = 131072;
  uint64_t offset = 8192;
  uint64_t num_bytes = 4096;

  std::vector<uint8_t> Bytes() const {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(this);
    return {bytes, bytes + sizeof(*this)};
  }
};

using Change = void (*)(Item*);

std::optional<BtrfsItem> Parse(const std::vector<uint8_t>& bytes, uint64_t key = 65536) {
  return ParseBtrfsItem(key, Span<const uint8_t>(bytes.data(), bytes.size()));
}

Extent ExtentOf(const Item& item) {
  const std::optional<BtrfsItem> parsed = Parse(item.Bytes());
  EXPECT_TRUE(parsed.has_value());
  return parsed.has_value() ? parsed->extent : Extent{};
}

TEST(BtrfsItemTest, AddressesPlainDataByDevice) {
  const Extent extent = ExtentOf({});
  EXPECT_EQ(Classify(extent.flags), ExtentClass::kData);
  EXPECT_EQ(extent.logical, 65536u);
  EXPECT_EQ(extent.length, 4096u);
  EXPECT_EQ(extent.physical, (1u << 20) + 8192u);
  EXPECT_EQ(extent.origin, 0u);
  EXPECT_EQ(Parse(Item{}.Bytes())->generation, 7u);
}

// A neighbour on the disk: the sum of address and offset is the same, the content is not.
void MoveOn(Item* item) {
  item->disk_bytenr += 4096;
  item->offset -= 4096;
}

TEST(BtrfsItemTest, TellsCompressedExtentsApartByAddressAndCompression) {
  const Item item = With(Item(), [](Item* each) { each->compression = 3; });
  const Extent extent = ExtentOf(item);
  EXPECT_EQ(Classify(extent.flags), ExtentClass::kData);
  EXPECT_EQ(extent.physical, 8192u);
  EXPECT_NE(extent.origin, 0u);
  for (const Change change : {Change([](Item* each) { each->compression = 1; }), Change(MoveOn)}) {
    EXPECT_NE(ExtentOf(With(item, change)).origin, extent.origin);
  }
}

// A source of one extent.
class OneExtent : public ExtentSource {
 public:
  explicit OneExtent(const Extent& extent) : extent_(extent) {}
  void Seek(uint64_t) override { is_read_ = false; }
  Result<Span<const Extent>> Read(size_t) override {
    const size_t count = is_read_ ? 0 : 1;
    is_read_ = true;
    return Span<const Extent>(&extent_, count);
  }

 private:
  const Extent extent_;
  bool is_read_ = false;
};

TEST(BtrfsItemTest, ComparesCompressedDataByAddressCompressionAndOffset) {
  const auto reported = [](const Item& left, const Item& right) {
    OneExtent target(ExtentOf(left));
    OneExtent base(ExtentOf(right));
    IntervalWalk walk(&target, &base, 65536 + 4096);
    EXPECT_TRUE(walk.Seek(65536, [] { return size_t{1}; }).ok());
    return walk.Current().reported;
  };
  const Item item = With(Item(), [](Item* each) { each->compression = 3; });
  EXPECT_FALSE(reported(item, item));
  for (const Change change : {Change([](Item* each) { each->compression = 2; }),
                              Change([](Item* each) { each->disk_bytenr += 4096; }),
                              Change([](Item* each) { each->offset += 4096; }),
                              Change([](Item* each) { each->compression = 0; })}) {
    EXPECT_TRUE(reported(item, With(item, change)));
  }
}

TEST(BtrfsItemTest, TakesHolesAndPreallocationsForZeros) {
  for (const Change change : {Change([](Item* each) { each->disk_bytenr = 0; }),
                              Change([](Item* each) { each->type = 2; })}) {
    EXPECT_EQ(Classify(ExtentOf(With(Item(), change)).flags), ExtentClass::kZero);
  }
}

TEST(BtrfsItemTest, ProvesNothingByItemsThatAreInlineEncryptedOrUnknown) {
  for (const Change change :
       {Change([](Item* each) { each->type = 0; }), Change([](Item* each) { each->type = 3; }),
        Change([](Item* each) { each->encryption = 1; }),
        Change([](Item* each) { each->other_encoding = 1; }),
        Change([](Item* each) { each->other_encoding = 256; }),
        Change([](Item* each) { each->compression = 4; }),
        Change([](Item* each) { each->compression = 1, each->disk_bytenr = 12345; })}) {
    EXPECT_EQ(Classify(ExtentOf(With(Item(), change)).flags), ExtentClass::kOpaque);
  }
  std::vector<uint8_t> bytes = With(Item(), [](Item* each) { each->type = 0; }).Bytes();
  bytes.resize(25);
  EXPECT_EQ(Parse(bytes, 0)->extent.length, 131072u);
}

TEST(BtrfsItemTest, RefusesItemsThatAreTooShortOrWrapAround) {
  const std::vector<uint8_t> whole = Item{}.Bytes();
  for (size_t size = 0; size < whole.size(); size++) {
    EXPECT_FALSE(Parse({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)})) << size;
  }
  EXPECT_FALSE(Parse(With(Item(), [](Item* each) { each->offset = UINT64_MAX; }).Bytes()));
}

TEST(BtrfsItemTest, KeepsExtentsOfAnyBytesWithinAFileOrRefusesThem) {
  std::mt19937_64 random(Seed());
  constexpr uint64_t kSize = 1 << 20;
  for (int round = 0; round < 20'000; round++) {
    std::vector<uint8_t> bytes(random() % 64);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random() % 4 == 0 ? random() : 0);
    std::optional<BtrfsItem> item = Parse(bytes, random() % (2 * kSize));
    if (!item.has_value()) continue;
    Extent extent = item->extent;
    if (CheckExtent(0, kSize, &extent) != MapCheck::kTake) continue;
    EXPECT_TRUE(extent.length > 0 && extent.end() <= kSize);
    EXPECT_GE(extent.physical + extent.length, extent.physical);
  }
}

}  // namespace
}  // namespace blockdelta::test
