// Reads which files the machine's loop devices are attached to, from the kernel each time.
//
// A backing file is identified by device and inode, never by path (sysfs follows renames) or loop
// number (any process can reuse a freed one). Attaches and detaches nothing.
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
  // Attached read-only; fixed at the attach.
  bool attached_read_only;
  // Refuses writes: attached read-only, or set read-only later by BLKROSET.
  bool read_only;
  bool direct_io;
  // Size of a logical sector, the smallest unit of I/O.
  uint32_t sector_bytes;
  uint64_t size_bytes;
};

std::string LoopPath(uint32_t number);
// Opens /dev/loopN and checks that it is loop device N. Creates a missing node, as in a container.
Result<UniqueFd> OpenLoop(uint32_t number, int flags);

// LOOP_GET_STATUS64; ENXIO if not attached.
Result<struct loop_info64> LoopStatus(int fd, const std::string& path);
FileIdentity BackingOf(const struct loop_info64& info);
// The state of an open device; ENXIO if not attached.
Result<LoopDevice> DescribeLoop(int fd);

// Numbers of the attached devices, ascending.
Result<std::vector<uint32_t>> AttachedLoops();
// Whether sysfs shows a backing file for this number.
bool IsAttached(uint32_t number);
// The path that sysfs reports for the backing file, renames followed; nothing if the device is not
// attached, empty if it is in transition. Does not open the device, so it disturbs no detach.
std::optional<std::string> NamedFile(uint32_t number);

// Keeps the device attached after its last close (clears AUTOCLEAR), if it is attached to that
// file. False if it is not.
Result<bool> CancelAutoclear(uint32_t number, const FileIdentity& backing);

// Opens the device's backing file with O_PATH by the name in sysfs. ESTALE if that name leads to
// another file, ENOENT if the device is not attached or its file is unlinked.
Result<UniqueFd> OpenBacking(const LoopDevice& device);

// All attached devices, except those detached during the call and those whose backing file is
// unreachable (EIO, ESTALE).
Result<std::vector<LoopDevice>> ListLoops();
// A file whose loop device is looked for. Only `identity` decides; the rest avoids a look at every
// device of the machine.
struct BackingFile {
  FileIdentity identity;
  // May lead through a descriptor of this process. The devices that name it in sysfs come first.
  std::string path;
  // The regular file, open for reading and by no other descriptor of the calling thread: the kernel
  // may then say at once that the file is attached to nothing. -1 if there is none.
  int fd = -1;
  // The number of the device that the file had when the caller last looked.
  std::optional<uint32_t> hint = std::nullopt;
};

// The device that a file is attached to; if there are several, that of the hint, else the lowest
// number among those that name the path in sysfs, else the lowest of all. Devices with an
// unreachable backing file (EIO, ESTALE) are skipped, unless they name this file.
Result<std::optional<LoopDevice>> FindLoop(const BackingFile& file);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_LOOP_INFO_H_
