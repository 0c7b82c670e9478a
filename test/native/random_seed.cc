#include "test/native/random_seed.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

namespace blockdelta::test {
namespace {

// FNV-1a. std::hash differs between standard libraries.
uint64_t HashOf(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace

uint64_t Seed() {
  const testing::TestInfo* running = testing::UnitTest::GetInstance()->current_test_info();
  const std::string name = std::string(running->test_suite_name()) + "." + running->name();
  static const auto start =
      static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  const char* given = std::getenv("BLOCKDELTA_TEST_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10)
                        : IsNightly()    ? start
                                         : HashOf(name);
  static std::string printed;
  if (printed == name) return seed;
  printed = name;
  std::cout << "random; to repeat: BLOCKDELTA_TEST_SEED=" << seed << " scripts/test-native "
            << (IsNightly() ? "--nightly " : "") << name << std::endl;
  return seed;
}

bool IsNightly() {
  const char* given = std::getenv("BLOCKDELTA_TEST_NIGHTLY");
  return given != nullptr && std::strcmp(given, "1") == 0;
}

}  // namespace blockdelta::test
