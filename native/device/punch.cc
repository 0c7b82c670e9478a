#include "native/device/punch.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "native/base/posix.h"

namespace blockdelta {
namespace {

constexpr uint64_t kSectorBytes = 512;
constexpr uint64_t kBytesAtOnce = 1 << 20;

Status PunchHole(int fd, const std::string& path, const ByteRange& range) {
  const int done = RetryInterrupted([&] {
    return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                     static_cast<off_t>(range.offset), static_cast<off_t>(range.size));
  });
  return done == -1 ? Status::Errno(errno, "fallocate", path) : Status();
}

// Writes zeros to the range where it does not read as zeros.
Status WriteZeros(int fd, const std::string& path, uint64_t begin, uint64_t end) {
  std::vector<uint8_t> bytes(std::min(end - begin, kBytesAtOnce));
  while (begin < end) {
    const size_t size = std::min<uint64_t>(end - begin, bytes.size());
    const auto at = static_cast<off_t>(begin);
    ssize_t done = RetryInterrupted([&] { return pread(fd, bytes.data(), size, at); });
    if (done <= 0) return Status::Errno(done == -1 ? errno : EIO, "pread", path);
    const auto read_end = bytes.begin() + done;
    if (std::any_of(bytes.begin(), read_end, [](uint8_t byte) { return byte != 0; })) {
      std::fill(bytes.begin(), read_end, 0);
      const auto wanted = static_cast<size_t>(done);
      done = RetryInterrupted([&] { return pwrite(fd, bytes.data(), wanted, at); });
      if (done <= 0) return Status::Errno(done == -1 ? errno : EIO, "pwrite", path);
    }
    begin += static_cast<uint64_t>(done);
  }
  return Status();
}

Status DiscardBlocks(int fd, const std::string& path, const ByteRange& range,
                     uint64_t block_bytes) {
  const uint64_t end = range.offset + range.size;
  const uint64_t last = end / block_bytes * block_bytes;
  const uint64_t first = (range.offset + block_bytes - 1) / block_bytes * block_bytes;
  if (first >= last) return WriteZeros(fd, path, range.offset, end);
  uint64_t discarded[2] = {first, last - first};
  RETURN_IF_ERROR(Ioctl(fd, BLKDISCARD, discarded, "BLKDISCARD", path));
  RETURN_IF_ERROR(WriteZeros(fd, path, range.offset, first));
  return WriteZeros(fd, path, last, end);
}

}  // namespace

Status PunchDevice(const std::string& path, const std::vector<ByteRange>& ranges,
                   uint64_t block_bytes) {
  Result<UniqueFd> fd = OpenPath(path, O_RDWR | O_NONBLOCK);
  RETURN_IF_ERROR(fd);
  Result<struct stat> state = StatFd(fd->get(), path);
  RETURN_IF_ERROR(state);
  // A file would be punched as well, and keep no trace of a wrong path.
  if (!S_ISBLK(state->st_mode)) return Status::Errno(ENOTBLK, "fallocate", path);
  uint64_t device_bytes = 0;
  RETURN_IF_ERROR(Ioctl(fd->get(), BLKGETSIZE64, &device_bytes, "BLKGETSIZE64", path));
  for (const ByteRange& range : ranges) {
    const auto& [offset, size] = range;
    // fallocate shortens a range that ends beyond the end, and WriteZeros knows no sectors.
    const bool is_whole = offset % kSectorBytes == 0 && size % kSectorBytes == 0;
    const bool is_inside = offset <= device_bytes && size <= device_bytes - offset;
    if (!is_whole || !is_inside) return Status::Errno(EINVAL, "fallocate", path);
    RETURN_IF_ERROR(block_bytes == 0 ? PunchHole(fd->get(), path, range)
                                     : DiscardBlocks(fd->get(), path, range, block_bytes));
  }
  return Status();
}

}  // namespace blockdelta
