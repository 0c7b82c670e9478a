// Runs all registered tests, or those whose sentence contains the first argument.
#include "test/native/harness.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace blockdelta::test {
namespace {

struct Case {
  const char* sentence;
  void (*body)();
};

std::vector<Case>& Cases() {
  static std::vector<Case> cases;
  return cases;
}

struct Run {
  const char* sentence = "";
  int failures = 0;
  std::string skipped;
};
Run current;

// FNV-1a: the same everywhere, which std::hash is not.
uint64_t HashOf(const char* text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (; *text != '\0'; text++) hash = (hash ^ static_cast<uint8_t>(*text)) * 0x100000001b3;
  return hash;
}

}  // namespace

void Register(const char* sentence, void (*body)()) { Cases().push_back({sentence, body}); }

void Fail(const char* file, int line, const std::string& what) {
  current.failures++;
  std::cout << "  " << file << ":" << line << ": " << what << "\n";
}

void Skip(const std::string& reason) { current.skipped = reason; }

uint64_t Seed() {
  const char* given = std::getenv("BLOCKDELTA_TEST_SEED");
  if (given != nullptr) return std::strtoull(given, nullptr, 10);
  static const auto now =
      static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  return IsLong() ? now : HashOf(current.sentence);
}

bool IsLong() {
  const char* given = std::getenv("BLOCKDELTA_TEST_LONG");
  return given != nullptr && std::strcmp(given, "1") == 0;
}

int RunAll(const char* pattern) {
  int passed = 0;
  int failed = 0;
  int skipped = 0;
  for (const Case& test : Cases()) {
    if (std::strstr(test.sentence, pattern) == nullptr) continue;
    current = Run();
    current.sentence = test.sentence;
    test.body();
    const bool was_skipped = current.failures == 0 && !current.skipped.empty();
    (current.failures > 0 ? failed : was_skipped ? skipped : passed)++;
    std::cout << (current.failures > 0 ? "FAILED "
                  : was_skipped        ? "skip   "
                                       : "ok     ")
              << test.sentence;
    if (was_skipped) std::cout << " (" << current.skipped << ")";
    std::cout << std::endl;
    if (current.failures > 0) {
      std::cout << "  if it is random, once more: BLOCKDELTA_TEST_SEED=" << Seed()
                << " scripts/test-native" << (IsLong() ? " --long" : "") << " '" << test.sentence
                << "'" << std::endl;
    }
  }
  std::cout << passed << " passed, " << failed << " failed, " << skipped << " skipped" << std::endl;
  return failed == 0 ? 0 : 1;
}

}  // namespace blockdelta::test

int main(int argc, char** argv) { return blockdelta::test::RunAll(argc > 1 ? argv[1] : ""); }
