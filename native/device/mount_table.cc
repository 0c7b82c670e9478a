#include "native/device/mount_table.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <map>
#include <utility>

#include "native/base/posix.h"
#include "native/device/anchored_path.h"

namespace blockdelta {
namespace {

// Debian 12 has no header with these; all are of linux/mount.h, linux/stat.h and asm/unistd.h.
constexpr long kStatMount = 457;
constexpr long kListMount = 458;
constexpr unsigned kUniqueMountId = 0x4000;  // STATX_MNT_ID_UNIQUE
constexpr uint64_t kRootMount = UINT64_MAX;  // LSMT_ROOT
constexpr uint64_t kSuperBlock = 0x1;        // STATMOUNT_SB_BASIC, and so on.
constexpr uint64_t kMount = 0x2;
constexpr uint64_t kRoot = 0x8;
constexpr uint64_t kMountPoint = 0x10;
constexpr uint64_t kType = 0x20;
constexpr uint64_t kOptions = 0x80;
constexpr uint64_t kSubtype = 0x100;
constexpr uint64_t kSource = 0x200;
constexpr uint64_t kSupported = 0x1000;
constexpr uint64_t kIdentity = kSuperBlock | kMount | kType;
constexpr uint64_t kAlways = kIdentity | kRoot | kMountPoint;
constexpr uint64_t kEverything = kAlways | kOptions | kSubtype | kSource | kSupported;

constexpr size_t kIdsPerCall = 1024;
// Options of an overlay with hundreds of layers have some ten KiB.
constexpr size_t kAnswerBytes = 128 * 1024;

// struct mnt_id_req.
struct Request {
  uint32_t size;
  uint32_t spare;
  uint64_t mount_id;
  // What is asked, or the last id of the call before.
  uint64_t parameter;
};

// struct statmount. The strings follow, and fields hold their offsets.
struct Answer {
  uint32_t size;
  uint32_t options;
  uint64_t mask;
  uint32_t major;
  uint32_t minor;
  uint64_t magic;
  uint32_t super_flags;
  uint32_t type;
  uint64_t mount_id;
  uint64_t parent_id;
  uint32_t old_mount_id;
  uint32_t old_parent_id;
  uint64_t attributes;
  uint64_t propagation;
  uint64_t peer_group;
  uint64_t master_group;
  uint64_t propagate_from;
  uint32_t root;
  uint32_t mount_point;
  uint64_t namespace_id;
  uint32_t subtype;
  uint32_t source;
  uint64_t lists[2];
  uint64_t supported;
  uint64_t reserved[45];
};
static_assert(sizeof(Answer) == 512, "as in linux/mount.h");

}  // namespace

// Asks about one mount at a time. Each answer is valid until the next.
class StatMount {
 public:
  // Returns 0 or the errno.
  int Ask(uint64_t unique_id, uint64_t mask) {
    const Request request = {sizeof request, 0, unique_id, mask};
    const long result = RetryInterrupted(
        [&] { return syscall(kStatMount, &request, buffer_.data(), buffer_.size(), 0); });
    if (result == -1) return errno;
    std::memcpy(&answer_, buffer_.data(), sizeof answer_);
    return 0;
  }

  const Answer& answer() const { return answer_; }
  bool Has(uint64_t mask) const { return (answer_.mask & mask) == mask; }

  // Empty if the kernel left the string out, as it does with an empty one.
  std::string Text(uint64_t mask, uint32_t offset) const {
    const size_t begin = sizeof(Answer) + offset;
    if (!Has(mask) || begin >= buffer_.size()) return std::string();
    return std::string(buffer_.data() + begin,
                       strnlen(buffer_.data() + begin, buffer_.size() - begin));
  }

 private:
  std::vector<char> buffer_ = std::vector<char>(kAnswerBytes);
  Answer answer_ = {};
};

namespace {

// Returns how many ids there are in `ids`, or -1.
long ListMounts(uint64_t below, uint64_t after, uint64_t* ids, size_t room) {
  const Request request = {sizeof request, 0, below, after};
  return RetryInterrupted([&] { return syscall(kListMount, &request, ids, room, 0); });
}

dev_t DeviceIn(const Answer& answer) { return makedev(answer.major, answer.minor); }

MountRecord RecordOf(const StatMount& stat) {
  const Answer& answer = stat.answer();
  MountRecord record;
  record.mount_id = answer.old_mount_id;
  record.parent_id = answer.old_parent_id;
  record.major = answer.major;
  record.minor = answer.minor;
  record.root = stat.Text(kRoot, answer.root);
  record.mount_point = stat.Text(kMountPoint, answer.mount_point);
  record.attributes = answer.attributes;
  record.peer_group = answer.peer_group;
  record.master_group = answer.master_group;
  record.type = stat.Text(kType, answer.type);
  const std::string subtype = stat.Text(kSubtype, answer.subtype);
  if (!subtype.empty()) record.type += "." + subtype;
  record.source = stat.Text(kSource, answer.source);
  record.super_flags = answer.super_flags;
  record.super_options = stat.Text(kOptions, answer.options);
  return record;
}

// The id, as in mountinfo, of the mount that is visible at the path or, if there is nothing, on the
// way to it.
std::optional<uint64_t> VisibleMount(std::string path) {
  for (;;) {
    Result<UniqueFd> fd = OpenPath(path, O_PATH | O_NOFOLLOW);
    if (fd.ok()) {
      Result<uint64_t> found = MountIdOf(fd->get(), path);
      return found.ok() ? std::optional<uint64_t>(*found) : std::nullopt;
    }
    const Status& status = fd.status();
    const bool is_absent =
        status.IsErrno(ENOENT) || status.IsErrno(ENOTDIR) || status.IsErrno(ENAMETOOLONG);
    if (!is_absent || path == "/") return std::nullopt;
    path = DirectoryOf(path);
  }
}

}  // namespace

std::optional<uint64_t> UniqueMountIdOf(int fd) {
  struct statx found = {};
  constexpr int kFlags = AT_EMPTY_PATH | AT_STATX_DONT_SYNC;
  const int result =
      RetryInterrupted([&] { return statx(fd, "", kFlags, kUniqueMountId, &found); });
  if (result == -1 || (found.stx_mask & kUniqueMountId) == 0) return std::nullopt;
  return found.stx_mnt_id;
}

bool HasNothingOnIt(uint64_t unique_id) {
  uint64_t child = 0;
  return ListMounts(unique_id, 0, &child, 1) == 0;
}

MountTable::MountTable() : stat_(std::make_unique<StatMount>()) {}
MountTable::~MountTable() = default;

// Brings known_ up to date. False if the kernel cannot tell.
bool MountTable::Refresh() {
  std::map<uint64_t, Known> found;
  std::array<uint64_t, kIdsPerCall> ids = {};
  for (uint64_t after = 0;;) {
    const long count = ListMounts(kRootMount, after, ids.data(), ids.size());
    if (count < 0) return false;
    for (size_t i = 0; i < static_cast<size_t>(count); i++) {
      const uint64_t id = ids[i];
      const auto known = known_.find(id);
      if (known != known_.end()) {
        found.emplace_hint(found.end(), *known);
        continue;
      }
      const int failure = stat_->Ask(id, kIdentity);
      if (failure == ENOENT) continue;
      if (failure != 0 || !stat_->Has(kIdentity)) return false;
      const Answer& answer = stat_->answer();
      const bool is_btrfs = stat_->Text(kType, answer.type) == "btrfs";
      found.emplace_hint(found.end(), id, Known{answer.old_mount_id, DeviceIn(answer), is_btrfs});
    }
    if (static_cast<size_t>(count) < ids.size()) break;
    after = ids.back();
  }
  known_ = std::move(found);
  return true;
}

// Adds the mount that is visible at the path, and those below it. False if they are unknown.
bool MountTable::AddChain(const std::string& path, std::set<uint64_t>* wanted) {
  const std::optional<uint64_t> visible = VisibleMount(path);
  if (!visible.has_value()) return false;
  auto at = known_.begin();
  while (at != known_.end() && at->second.mount_id != *visible) ++at;
  if (at == known_.end()) return false;
  // The root's parent is not in the table, or is the root itself.
  while (at != known_.end() && wanted->insert(at->first).second) {
    if (stat_->Ask(at->first, kMount) != 0 || !stat_->Has(kMount)) return false;
    at = known_.find(stat_->answer().parent_id);
  }
  return true;
}

std::optional<std::vector<MountRecord>> MountTable::Around(const std::vector<std::string>& paths,
                                                           const std::vector<dev_t>& devices) {
  if (!Refresh()) return std::nullopt;
  std::set<uint64_t> wanted;
  for (const std::string& path : paths) {
    if (!AddChain(path, &wanted)) return std::nullopt;
  }
  const std::set<dev_t> numbers(devices.begin(), devices.end());
  for (const auto& [id, known] : known_) {
    if (known.is_btrfs || numbers.count(known.device) > 0) wanted.insert(id);
  }
  std::vector<MountRecord> records;
  for (const uint64_t id : wanted) {
    const int failure = stat_->Ask(id, kEverything);
    if (failure == ENOENT) continue;
    const bool tells = stat_->Has(kAlways) && (stat_->answer().supported & kSource) != 0;
    if (failure != 0 || !tells) return std::nullopt;
    records.push_back(RecordOf(*stat_));
  }
  return records;
}

}  // namespace blockdelta
