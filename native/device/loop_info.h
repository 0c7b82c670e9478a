// What the machine's loop devices are attached to, asked of the kernel each time.
//
// Identity is the backing file's device and inode, never a path (sysfs follows renames) and never a
// number (a freed one is taken by anyone). Attaches and detaches nothing.
#ifndef BLOCKDELTA_NATIVE_DEVICE_LOOP_INFO_H_
#define BLOCKDELTA_NATIVE_DEVICE_LOOP_INFO_H_

#include <linux/loop.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "native/base/posix.h"

namespace blockdelta {

// st_dev and st_ino of a backing file.
struct FileIdentity {
  uint64_t device;
  uint64_t inode;

  bool operator==(const FileIdentity& other) const {
    return device == other.device && inode == other.inode;
  }
};

struct LoopDevice {
  uint32_t number;
  std::string path;
  FileIdentity backing;
  // Attached read-only. This is decided when attaching and stays so.
  bool attached_read_only;
  // Writes are refused now: attached read-only, or made so later by BLKROSET.
  bool read_only;
  bool direct_io;
  // Of a logical sector: the smallest unit of I/O.
  uint32_t sector_bytes;
  uint64_t size_bytes;
};

std::string LoopPath(uint32_t number);
// Opens /dev/loopN and makes sure that it is loop device N. In a container the node of a number
// that exists may be missing; it is made then.
Result<UniqueFd> OpenLoop(uint32_t number, int flags);

// LOOP_GET_STATUS64; ENXIO if the device is not attached.
Result<struct loop_info64> LoopStatus(int fd, const std::string& path);
FileIdentity BackingOf(const struct loop_info64& info);
// Everything about an open, attached device. ENXIO if it is not attached.
Result<LoopDevice> DescribeLoop(int fd);

// Numbers of the devices that are attached now, ascending.
Result<std::vector<uint32_t>> AttachedLoops();
// Whether the kernel still names a backing file for this number.
bool IsAttached(uint32_t number);

// Makes the device stay attached after its last close (clears AUTOCLEAR), if it is attached to that
// file. False: it is not.
Result<bool> KeepLoop(uint32_t number, const FileIdentity& backing);

// The device's file, opened with O_PATH by the name that the kernel has for it. ESTALE if there is
// another file, ENOENT if the device is not attached or its file has no name any more.
Result<UniqueFd> OpenBacking(const LoopDevice& device);

// All attached devices; those that vanish meanwhile are left out.
Result<std::vector<LoopDevice>> ListLoops();
// The device that a file is attached to; if there are several, the lowest number of those that name
// `path` as their file, or else of all. `path`, which may lead through a descriptor of this
// process, is only where to look first: without opening the devices of others. Devices whose own
// file cannot be reached any more (EIO, ESTALE) are passed over, unless they name this file.
Result<std::optional<LoopDevice>> FindLoop(const FileIdentity& backing, const std::string& path);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_LOOP_INFO_H_
