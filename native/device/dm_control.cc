#include "native/device/dm_control.h"

#include <linux/major.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "native/device/dm_status.h"

namespace blockdelta {
namespace {

static_assert(sizeof(struct dm_ioctl) == 312, "ABI of device-mapper");

constexpr char kDirectory[] = "/dev/" DM_DIR;
constexpr char kControl[] = "/dev/" DM_DIR "/" DM_CONTROL_NODE;
constexpr mode_t kControlMode = S_IFCHR | 0600;
// MAPPER_CTRL_MINOR of include/linux/miscdevice.h; fixed.
constexpr unsigned kControlMinor = 236;
constexpr size_t kFirstBuffer = 16 * 1024;
constexpr size_t kMaxBuffer = 16 * 1024 * 1024;

std::vector<uint8_t> Encode(const DmCall& call, size_t size) {
  struct dm_ioctl header = {};
  header.version[0] = DM_VERSION_MAJOR;
  header.data_size = static_cast<uint32_t>(size);
  header.data_start = sizeof header;
  header.target_count = call.target_count;
  header.flags = call.flags;
  call.name.copy(header.name, sizeof header.name - 1);
  call.uuid.copy(header.uuid, sizeof header.uuid - 1);
  std::vector<uint8_t> buffer(size);
  std::memcpy(buffer.data(), &header, sizeof header);
  if (!call.argument.empty()) {
    std::memcpy(buffer.data() + sizeof header, call.argument.data(), call.argument.size());
  }
  return buffer;
}

Result<DmReply> Decode(const DmCall& call, const std::vector<uint8_t>& buffer) {
  DmReply reply;
  std::memcpy(&reply.header, buffer.data(), sizeof reply.header);
  struct dm_ioctl& header = reply.header;
  header.name[sizeof header.name - 1] = '\0';
  header.uuid[sizeof header.uuid - 1] = '\0';
  if (header.data_size > buffer.size()) {
    return Status::Reason(kDmStatusInvalid, call.what, call.name,
                          std::string(call.what) + ": the reply is larger than its buffer");
  }
  // A reply without payload has a data_size at or below data_start.
  if (header.data_start >= sizeof header && header.data_start < header.data_size) {
    reply.bytes.assign(buffer.begin() + header.data_start, buffer.begin() + header.data_size);
  }
  return reply;
}

Status CheckText(const std::string& text, size_t max, const char* what) {
  if (text.size() <= max && text.find('/') == std::string::npos &&
      text.find('\0') == std::string::npos) {
    return Status();
  }
  return Status::Errno(EINVAL, "device-mapper", text,
                       std::string("a ") + what + " must have at most " + std::to_string(max) +
                           " bytes, without '/' and NUL");
}

// Creates and opens the control node where nothing else has created it. The open loads the module
// if possible.
Result<UniqueFd> OpenOwnNode() {
  const dev_t device = makedev(MISC_MAJOR, kControlMinor);
  if (mkdir(kDirectory, 0755) == -1 && errno != EEXIST) {
    return Status::Errno(errno, "mkdir", kDirectory);
  }
  if (mknod(kControl, kControlMode, device) == -1 && errno != EEXIST) {
    return Status::Errno(errno, "mknod", kControl);
  }
  Result<UniqueFd> fd = OpenPath(kControl, O_RDWR);
  // Leave no node without a driver behind.
  if (!fd.ok()) static_cast<void>(UnlinkPath(kControl));
  return fd;
}

}  // namespace

Status CheckDmName(const std::string& name) {
  if (name.empty()) {
    return Status::Errno(EINVAL, "device-mapper", name, "a name must not be empty");
  }
  return CheckText(name, DM_NAME_LEN - 1, "name");
}

Status CheckDmUuid(const std::string& uuid) { return CheckText(uuid, DM_UUID_LEN - 1, "uuid"); }

Result<DmControl> DmControl::Open() {
  Result<UniqueFd> fd = OpenPath(kControl, O_RDWR);
  if (fd.status().IsErrno(ENOENT)) {
    Result<UniqueFd> own = OpenOwnNode();
    if (own.ok()) fd = std::move(own);
  }
  RETURN_IF_ERROR(fd);
  return DmControl(std::move(*fd));
}

Result<DmReply> DmControl::Call(const DmCall& call) const {
  Status status = CheckText(call.name, DM_NAME_LEN - 1, "name");
  if (status.ok()) status = CheckDmUuid(call.uuid);
  if (!status.ok()) return status;
  size_t size = std::max(kFirstBuffer, sizeof(struct dm_ioctl) + call.argument.size());
  for (; size <= kMaxBuffer; size *= 4) {
    std::vector<uint8_t> buffer = Encode(call, size);
    status = Ioctl(fd_.get(), call.request, buffer.data(), call.what, call.name);
    if (status.IsErrno(EACCES)) {
      return Status::Errno(EACCES, call.what, call.name, "it needs CAP_SYS_ADMIN");
    }
    if (!status.ok()) return status;
    Result<DmReply> reply = Decode(call, buffer);
    if (!reply.ok() || !reply->Has(DM_BUFFER_FULL_FLAG)) return reply;
  }
  return Status::Errno(ENOBUFS, call.what, call.name, "the reply exceeds 16 MiB");
}

}  // namespace blockdelta
