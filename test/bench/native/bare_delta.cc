// bare_delta BASE TARGET: what differs between two snapshot files, by their extent maps and no
// more.
//
// The peer of the delta benchmark that does as little as an honest answer needs: two FIEMAP scans
// into lists, one thread, then one merge. It opens the files without checking what they are, trusts
// that nothing moves, and prints the number of ranges, their bytes, and its wall time without the
// start of the process. It stands alone so that it does not get better or worse with our code.

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr uint32_t kExtentsPerCall = 1024;
constexpr uint32_t kOpaque = 0x78E;

struct Extent {
  uint64_t start;
  uint64_t end;
  uint64_t displacement;  // Physical minus logical.
  uint32_t flags;
};

struct Range {
  uint64_t start;
  uint64_t end;
};

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

std::vector<Extent> ReadMap(int fd, uint64_t size) {
  std::vector<uint64_t> memory(
      (sizeof(struct fiemap) + kExtentsPerCall * sizeof(struct fiemap_extent)) / sizeof(uint64_t));
  auto* map = reinterpret_cast<struct fiemap*>(memory.data());
  std::vector<Extent> extents;
  uint64_t position = 0;
  while (position < size) {
    *map = {};
    map->fm_start = position;
    map->fm_length = size - position;
    map->fm_flags = FIEMAP_FLAG_SYNC;
    map->fm_extent_count = kExtentsPerCall;
    if (ioctl(fd, FS_IOC_FIEMAP, map) != 0) Fail("FIEMAP");
    if (map->fm_mapped_extents == 0) break;
    for (uint32_t i = 0; i < map->fm_mapped_extents; i++) {
      const struct fiemap_extent& from = map->fm_extents[i];
      extents.push_back({from.fe_logical, from.fe_logical + from.fe_length,
                         from.fe_physical - from.fe_logical, from.fe_flags});
    }
    position = extents.back().end;
    if ((extents.back().flags & FIEMAP_EXTENT_LAST) != 0) break;
  }
  return extents;
}

// The piece of a map at an offset: an extent or the hole before it.
struct Piece {
  uint64_t end = UINT64_MAX;
  const Extent* extent = nullptr;  // Null: zeros.
};

Piece PieceAt(uint64_t offset, const std::vector<Extent>& extents, size_t* next) {
  while (*next < extents.size() && extents[*next].end <= offset) ++*next;
  if (*next == extents.size()) return {};
  const Extent& extent = extents[*next];
  if (offset < extent.start) return {extent.start, nullptr};
  const bool opaque = (extent.flags & kOpaque) != 0;
  const bool zero = !opaque && (extent.flags & FIEMAP_EXTENT_UNWRITTEN) != 0;
  return {extent.end, zero ? nullptr : &extent};
}

bool Differ(const Extent* left, const Extent* right) {
  if (left == nullptr || right == nullptr) return left != right;
  return ((left->flags | right->flags) & kOpaque) != 0 || left->displacement != right->displacement;
}

std::vector<Range> Merge(const std::vector<Extent>& base, const std::vector<Extent>& target,
                         uint64_t size) {
  std::vector<Range> ranges;
  size_t next_base = 0;
  size_t next_target = 0;
  for (uint64_t offset = 0; offset < size;) {
    const Piece left = PieceAt(offset, base, &next_base);
    const Piece right = PieceAt(offset, target, &next_target);
    const uint64_t end = std::min({left.end, right.end, size});
    if (Differ(left.extent, right.extent)) {
      if (!ranges.empty() && ranges.back().end == offset) {
        ranges.back().end = end;
      } else {
        ranges.push_back({offset, end});
      }
    }
    offset = end;
  }
  return ranges;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: bare_delta BASE TARGET\n");
    return 2;
  }
  const auto started = std::chrono::steady_clock::now();
  uint64_t base_size = 0;
  uint64_t target_size = 0;
  const int base = Open(argv[1], &base_size);
  const int target = Open(argv[2], &target_size);
  const std::vector<Extent> base_map = ReadMap(base, base_size);
  const std::vector<Extent> target_map = ReadMap(target, target_size);
  const std::vector<Range> ranges = Merge(base_map, target_map, target_size);
  uint64_t bytes = 0;
  for (const Range& range : ranges) bytes += range.end - range.start;
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - started;
  std::printf("ranges %zu bytes %llu ms %.3f\n", ranges.size(),
              static_cast<unsigned long long>(bytes), elapsed.count());
}
