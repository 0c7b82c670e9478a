// Runs a fuzz target without libFuzzer, for machines without clang: blindly, but under the same
// sanitizers.
//
//   fuzz_NAME FILE...                                    each file once
//   fuzz_NAME --seconds N --artifact FILE [DIRECTORY]    random inputs, and changed ones of
//   DIRECTORY;
//                                                        FILE holds the input that is being tried
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

std::vector<Bytes> ReadSeeds(const char* directory) {
  std::vector<Bytes> seeds;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    seeds.push_back(ReadFile(entry.path()));
  }
  return seeds;
}

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

int RunRandom(std::chrono::seconds time, const char* artifact_path, const char* seed_directory) {
  const uint64_t seed = std::random_device{}();
  std::printf("seed %" PRIu64 ", inputs at %s\n", seed, artifact_path);
  std::fflush(stdout);
  std::mt19937_64 random(seed);
  std::vector<Bytes> seeds;
  if (seed_directory != nullptr) seeds = ReadSeeds(seed_directory);
  std::FILE* artifact = std::fopen(artifact_path, "w");
  if (artifact == nullptr) return 2;
  uint64_t executions = 0;
  for (const Clock::time_point end = Clock::now() + time; Clock::now() < end; executions++) {
    const bool change = !seeds.empty() && random() % 4 != 0;
    Try(change ? Change(seeds[random() % seeds.size()], &random) : MakeUp(&random), artifact);
  }
  std::fclose(artifact);
  std::filesystem::remove(artifact_path);
  std::printf("%" PRIu64 " executions of random inputs\n", executions);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc >= 5 && std::strcmp(argv[1], "--seconds") == 0) {
    const std::chrono::seconds time(std::strtoul(argv[2], nullptr, 10));
    return RunRandom(time, argv[4], argc > 5 ? argv[5] : nullptr);
  }
  for (int i = 1; i < argc; i++) {
    const Bytes bytes = ReadFile(argv[i]);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  return 0;
}
