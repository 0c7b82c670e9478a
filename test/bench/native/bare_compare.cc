// bare_compare BASE TARGET: what differs between two files, found by reading both.
//
// The peer of the delta benchmark that knows nothing of extents: reads of 1 MiB, memcmp, and a
// second look block by block where they differ. Prints the number of ranges, their bytes, and its
// wall time without the start of the process.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr size_t kReadBytes = 1 << 20;
constexpr size_t kBlockBytes = 4096;

[[noreturn]] void Fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

int Open(const char* path, uint64_t* size) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  struct stat state;
  if (fd < 0 || fstat(fd, &state) != 0) Fail(path);
  *size = static_cast<uint64_t>(state.st_size);
  return fd;
}

// Bytes beyond the end of the file count as zero.
void ReadAt(int fd, uint64_t offset, std::vector<char>* buffer) {
  size_t filled = 0;
  while (filled < buffer->size()) {
    const ssize_t got = pread(fd, buffer->data() + filled, buffer->size() - filled,
                              static_cast<off_t>(offset + filled));
    if (got < 0) Fail("pread");
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  std::fill(buffer->begin() + static_cast<ptrdiff_t>(filled), buffer->end(), 0);
}

// Counts ranges: neighbouring blocks are one.
struct Ranges {
  uint64_t count = 0;
  uint64_t bytes = 0;
  uint64_t end = UINT64_MAX;

  void Add(uint64_t offset, uint64_t size) {
    if (offset != end) ++count;
    bytes += size;
    end = offset + size;
  }
};

void CompareBlocks(const std::vector<char>& base, const std::vector<char>& target, uint64_t offset,
                   Ranges* ranges) {
  for (size_t at = 0; at < target.size(); at += kBlockBytes) {
    const size_t size = std::min(kBlockBytes, target.size() - at);
    if (std::memcmp(base.data() + at, target.data() + at, size) != 0) {
      ranges->Add(offset + at, size);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: bare_compare BASE TARGET\n");
    return 2;
  }
  const auto started = std::chrono::steady_clock::now();
  uint64_t base_size = 0;
  uint64_t size = 0;
  const int base_fd = Open(argv[1], &base_size);
  const int target_fd = Open(argv[2], &size);
  std::vector<char> base;
  std::vector<char> target;
  Ranges ranges;
  for (uint64_t offset = 0; offset < size; offset += kReadBytes) {
    const size_t wanted = static_cast<size_t>(std::min<uint64_t>(kReadBytes, size - offset));
    base.resize(wanted);
    target.resize(wanted);
    ReadAt(base_fd, offset, &base);
    ReadAt(target_fd, offset, &target);
    if (std::memcmp(base.data(), target.data(), wanted) != 0) {
      CompareBlocks(base, target, offset, &ranges);
    }
  }
  const std::chrono::duration<double, std::milli> spent =
      std::chrono::steady_clock::now() - started;
  std::printf("ranges %llu bytes %llu ms %.3f\n", static_cast<unsigned long long>(ranges.count),
              static_cast<unsigned long long>(ranges.bytes), spent.count());
  return 0;
}
