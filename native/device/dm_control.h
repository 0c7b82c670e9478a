// The control node of device-mapper: one ioctl per call, no policy.
//
// Interface version 4.0.0, without udev: event_nr 0, no cookies. Safe from any thread: the kernel
// keeps no state per open file but for poll(2), which nobody calls.
#ifndef BLOCKDELTA_NATIVE_DEVICE_DM_CONTROL_H_
#define BLOCKDELTA_NATIVE_DEVICE_DM_CONTROL_H_

#include <linux/dm-ioctl.h>

#include <cstdint>
#include <string>
#include <vector>

#include "native/base/posix.h"
#include "native/base/span.h"

namespace blockdelta {

struct DmCall {
  unsigned long request;  // DM_DEV_STATUS, ...
  const char* what;       // The name of the request, for failures.
  std::string name;
  std::string uuid;
  uint32_t flags = 0;
  uint32_t target_count = 0;
  std::vector<uint8_t> argument;
};

struct DmReply {
  struct dm_ioctl header;
  std::vector<uint8_t> bytes;

  bool Has(uint32_t flag) const { return (header.flags & flag) != 0; }
  Span<const uint8_t> span() const { return Span<const uint8_t>(bytes.data(), bytes.size()); }
};

class DmControl {
 public:
  // ENOENT, ENXIO or ENODEV if the kernel has no device-mapper.
  static Result<DmControl> Open();

  // The path of a failure is the name of the device. EINVAL for an invalid name or uuid; ENXIO if
  // there is no such device; ENOBUFS if the reply exceeds 16 MiB.
  Result<DmReply> Call(const DmCall& call) const;

  int fd() const { return fd_.get(); }

 private:
  explicit DmControl(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

// 1 to 127 bytes, without "/" and NUL: the kernel would truncate a longer name.
Status CheckDmName(const std::string& name);
// At most 128 bytes, without "/" and NUL.
Status CheckDmUuid(const std::string& uuid);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_DM_CONTROL_H_
