#include "native/device/direct_io.h"

#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "native/device/files.h"
#include "native/device/loop_change.h"

namespace blockdelta {
namespace {

// Turns off direct I/O on the device if it is unsafe. False if nothing had to change, the backing
// file is in another file system, or the device cannot be queried.
Result<bool> EndIfUnsafe(uint32_t number, uint64_t file_system, int directory_fd) {
  Result<UniqueFd> fd = OpenLoop(number, O_RDONLY);
  if (!fd.ok()) return false;
  Result<struct loop_info64> info = LoopStatus(fd->get(), LoopPath(number));
  if (!info.ok() || BackingOf(*info).device != file_system) return false;
  Result<LoopDevice> device = DescribeLoop(fd->get());
  if (!device.ok() || !device->direct_io || device->attached_read_only) return false;
  // A new file has its directory's flags, so the directory stands in for a file without a name.
  Result<UniqueFd> file = OpenBacking(*device);
  Result<bool> safe =
      MayWriteDirectly(file.ok() ? file->get() : directory_fd, device->sector_bytes, device->path);
  if (safe.ok() && *safe) return false;
  RETURN_IF_ERROR(SetDirectIo(fd->get(), false, device->path));
  return true;
}

}  // namespace

Result<bool> MayWriteDirectly(int fd, uint32_t sector_bytes, const std::string& path) {
  struct statfs state = {};
  if (RetryInterrupted([&] { return fstatfs(fd, &state); }) == -1) {
    return Status::Errno(errno, "fstatfs", path);
  }
  // ext4 shares no blocks, so it writes any part of a block in place.
  if (state.f_type == EXT4_SUPER_MAGIC) return true;
  if (state.f_type == BTRFS_SUPER_MAGIC) {
    // O_PATH allows no ioctl, so the file is opened anew.
    Result<UniqueFd> file = OpenPath("/proc/self/fd/" + std::to_string(fd), O_RDONLY | O_NONBLOCK);
    RETURN_IF_ERROR(file);
    Result<bool> in_place = IsWrittenInPlace(file->get(), path);
    if (!in_place.ok() || !*in_place) return in_place;
  }
  const auto block_bytes = static_cast<uint64_t>(state.f_bsize);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  return sector_bytes >= block_bytes ||
         (page_bytes > 0 && block_bytes >= static_cast<uint64_t>(page_bytes));
}

Result<uint32_t> EndUnsafeDirectIo(const std::string& directory) {
  Result<UniqueFd> fd = OpenPath(directory, O_RDONLY | O_DIRECTORY);
  RETURN_IF_ERROR(fd);
  Result<struct stat> state = StatFd(fd->get(), directory);
  RETURN_IF_ERROR(state);
  Result<std::vector<uint32_t>> numbers = AttachedLoops();
  RETURN_IF_ERROR(numbers);
  uint32_t changed = 0;
  for (const uint32_t number : *numbers) {
    Result<bool> ended = EndIfUnsafe(number, state->st_dev, fd->get());
    RETURN_IF_ERROR(ended);
    if (*ended) changed++;
  }
  return changed;
}

}  // namespace blockdelta
