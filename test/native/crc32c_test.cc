// The checksum of metadata, by instruction and by tables.
#include "native/base/crc32c.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "test/native/random_seed.h"

namespace blockdelta {
namespace {

using Function = uint32_t (*)(uint32_t, const uint8_t*, size_t);

uint32_t Standard(Function function, const std::string& text) {
  return ~function(UINT32_MAX, reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

TEST(Crc32cTest, GivesTheValuesOfRfc3720AndTheUsualCheck) {
  std::string rising;
  for (int i = 0; i < 32; i++) rising.push_back(static_cast<char>(i));
  const std::string falling(rising.rbegin(), rising.rend());
  for (const Function function : {Crc32c, PortableCrc32c}) {
    EXPECT_EQ(Standard(function, ""), 0u);
    EXPECT_EQ(Standard(function, "123456789"), 0xe3069283u);
    EXPECT_EQ(Standard(function, std::string(32, '\0')), 0x8a9136aau);
    EXPECT_EQ(Standard(function, std::string(32, '\xff')), 0x62a8ab43u);
    EXPECT_EQ(Standard(function, rising), 0x46dd794eu);
    EXPECT_EQ(Standard(function, falling), 0x113fdb5cu);
  }
}

TEST(Crc32cTest, AgreesBetweenProcessorAndTables) {
  std::mt19937_64 random(test::Seed());
  std::vector<uint8_t> bytes(9000);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  for (int round = 0; round < 5000; round++) {
    const size_t begin = random() % 100;
    const size_t length = random() % (round % 2 == 0 ? 100 : 8900);
    const auto crc = static_cast<uint32_t>(random());
    EXPECT_EQ(Crc32c(crc, bytes.data() + begin, length),
              PortableCrc32c(crc, bytes.data() + begin, length));
  }
}

TEST(Crc32cTest, CanBeContinued) {
  const std::string text = "thin metadata, in two pieces of different length";
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  for (size_t split = 0; split <= text.size(); split++) {
    EXPECT_EQ(Crc32c(Crc32c(7, bytes, split), bytes + split, text.size() - split),
              Crc32c(7, bytes, text.size()));
  }
}

}  // namespace
}  // namespace blockdelta
