#include "native/device/block_device.h"

#include <linux/fs.h>

namespace blockdelta {

Status SetDeviceReadOnly(const std::string& device_path, bool read_only) {
  Result<UniqueFd> fd = OpenPath(device_path, O_RDONLY | O_NONBLOCK);
  if (!fd.ok()) return fd.TakeStatus();
  const int value = read_only ? 1 : 0;
  return Ioctl(fd->get(), BLKROSET, &value, "BLKROSET", device_path);
}

Status FlushPath(const std::string& path) {
  Result<UniqueFd> fd = OpenPath(path, O_RDONLY | O_NONBLOCK);
  if (!fd.ok()) return fd.TakeStatus();
  return SyncFd(fd->get(), path);
}

}  // namespace blockdelta
