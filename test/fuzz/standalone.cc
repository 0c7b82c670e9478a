// Runs a fuzz target without libFuzzer, for machines without clang: blindly, but under the same
// sanitizers.
//
//   fuzz_NAME FILE...                        each file once
//   fuzz_NAME --artifact FILE --seconds N [SEED...]
//   fuzz_NAME --artifact FILE --seed N --runs N [SEED...]
//
// With --artifact: each SEED, a file, once, then random inputs and changed ones of the seeds; FILE
// holds the input that is being tried. The same seed makes the same inputs.
#include <unistd.h>

#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;
using Clock = std::chrono::steady_clock;

constexpr size_t kMaxBytes = 400;

Bytes ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes((std::istreambuf_iterator<char>(file)), {});
}

struct Plan {
  const char* artifact = nullptr;
  std::chrono::seconds time{0};
  uint64_t runs = 0;
  uint64_t seed = 0;
  std::vector<Bytes> seeds;
};

// Small numbers mostly.
Bytes MakeUp(std::mt19937_64* random) {
  Bytes bytes((*random)() % kMaxBytes);
  for (uint8_t& byte : bytes)
    byte = static_cast<uint8_t>((*random)() % ((*random)() % 8 ? 64 : 256));
  return bytes;
}

Bytes Change(Bytes bytes, std::mt19937_64* random) {
  if (bytes.empty()) return bytes;
  if ((*random)() % 8 == 0) bytes.resize((*random)() % bytes.size() + 1);
  for (uint64_t changes = 1 + (*random)() % 8; changes > 0; changes--) {
    bytes[(*random)() % bytes.size()] = static_cast<uint8_t>((*random)());
  }
  return bytes;
}

// The sanitizers end the process, so what fails has to be in the file before it is tried.
void Try(const Bytes& bytes, std::FILE* artifact) {
  std::rewind(artifact);
  if (!bytes.empty()) std::fwrite(bytes.data(), 1, bytes.size(), artifact);
  std::fflush(artifact);
  if (ftruncate(fileno(artifact), static_cast<off_t>(bytes.size())) != 0) std::abort();
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

int RunRandom(const Plan& plan) {
  std::printf("seed %" PRIu64 ", inputs at %s\n", plan.seed, plan.artifact);
  std::fflush(stdout);
  std::mt19937_64 random(plan.seed);
  const std::vector<Bytes>& seeds = plan.seeds;
  std::FILE* artifact = std::fopen(plan.artifact, "w");
  if (artifact == nullptr) return 2;
  for (const Bytes& seed : seeds) Try(seed, artifact);
  uint64_t executions = seeds.size();
  const Clock::time_point end = Clock::now() + plan.time;
  for (; plan.runs > 0 ? executions < plan.runs : Clock::now() < end; executions++) {
    const bool change = !seeds.empty() && random() % 4 != 0;
    Try(change ? Change(seeds[random() % seeds.size()], &random) : MakeUp(&random), artifact);
  }
  std::fclose(artifact);
  std::filesystem::remove(plan.artifact);
  std::printf("%" PRIu64 " executions of random inputs\n", executions);
  return 0;
}

Plan ReadPlan(int argc, char** argv) {
  Plan plan;
  plan.seed = std::random_device{}();
  for (int i = 1; i < argc; i++) {
    const std::string argument = argv[i];
    const bool has_value = argument.rfind("--", 0) == 0 && i + 1 < argc;
    if (!has_value) {
      plan.seeds.push_back(ReadFile(argument));
      continue;
    }
    const char* const value = argv[++i];
    if (argument == "--artifact") plan.artifact = value;
    if (argument == "--seconds") plan.time = std::chrono::seconds(std::strtoul(value, nullptr, 10));
    if (argument == "--runs") plan.runs = std::strtoull(value, nullptr, 10);
    if (argument == "--seed") plan.seed = std::strtoull(value, nullptr, 10);
  }
  return plan;
}

}  // namespace

int main(int argc, char** argv) {
  const Plan plan = ReadPlan(argc, argv);
  if (plan.artifact != nullptr) return RunRandom(plan);
  for (const Bytes& bytes : plan.seeds) LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  return 0;
}
