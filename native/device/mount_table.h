// Reads single mounts by their ids with listmount(2) and statmount(2), Linux 6.8 and later, at a
// cost that hardly depends on the number of mounts of the node.
//
// What holds of a mount for good is remembered: its ids and the device number of its file system.
// Everything else is asked anew at each call: mount points move, and options change. Before Linux
// 6.15 the kernel does not say whether it tells the source of a mount; then, and where anything
// else is missing, there is no answer, and mountinfo has to be read.
#ifndef BLOCKDELTA_NATIVE_DEVICE_MOUNT_TABLE_H_
#define BLOCKDELTA_NATIVE_DEVICE_MOUNT_TABLE_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace blockdelta {

// The fields of a line of mountinfo (proc_pid_mountinfo(5)), with names as they are, unescaped.
struct MountRecord {
  // As in mountinfo; another mount may have had them before.
  uint64_t mount_id = 0;
  uint64_t parent_id = 0;
  uint64_t major = 0;
  uint64_t minor = 0;
  std::string root;
  std::string mount_point;
  // MOUNT_ATTR_* of linux/mount.h.
  uint64_t attributes = 0;
  // 0 if the mount is not in a peer group, or no slave of one.
  uint64_t peer_group = 0;
  uint64_t master_group = 0;
  std::string type;
  std::string source;
  // MS_RDONLY, MS_SYNCHRONOUS, MS_DIRSYNC and MS_LAZYTIME of the file system.
  uint64_t super_flags = 0;
  // The other options of the file system, without those of a security module.
  std::string super_options;
};

// The id of the mount of an open file that no other mount ever has; nothing before Linux 6.8 and if
// the file system has shut down.
std::optional<uint64_t> UniqueMountIdOf(int fd);

// Whether the kernel says that the mount is there and that nothing is mounted on it or in it.
bool HasNothingOnIt(uint64_t unique_id);

class StatMount;

// For one thread. Grows with the mounts of the node, by some hundred bytes each.
class MountTable {
 public:
  MountTable();
  ~MountTable();

  // The mounts of file systems with one of these device numbers (st_dev), all of btrfs, whose
  // numbers are made up, and those that are visible at the paths and on the way to them; in the
  // order of mountinfo. A path has no symbolic links but in its last component, and may not exist.
  // Touches no file system that is mounted at a path.
  std::optional<std::vector<MountRecord>> Around(const std::vector<std::string>& paths,
                                                 const std::vector<dev_t>& devices);

 private:
  struct Known {
    uint64_t mount_id;
    dev_t device;
    bool is_btrfs;
  };

  bool Refresh();
  bool AddChain(const std::string& path, std::set<uint64_t>* wanted);

  std::unique_ptr<StatMount> stat_;
  // By unique id.
  std::map<uint64_t, Known> known_;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_DEVICE_MOUNT_TABLE_H_
