#include "native/device/dm_thin.h"

#include <utility>

#include "native/device/dm_buffer.h"

namespace blockdelta {
namespace {

constexpr size_t kMaxMessage = 255;

// The status line of a device with one target of type `type`; nothing if there is no such device.
Result<std::optional<std::string>> StatusLine(const DmControl& control, const std::string& name,
                                              const char* type, bool commit) {
  RETURN_IF_ERROR(CheckDmName(name));
  const uint32_t flags = commit ? 0 : DM_NOFLUSH_FLAG;
  Result<DmReply> reply =
      control.Call({DM_TABLE_STATUS, "DM_TABLE_STATUS", name, "", flags, 0, {}});
  if (reply.status().IsErrno(ENXIO)) return std::optional<std::string>();
  RETURN_IF_ERROR(reply);
  Result<std::vector<DmTarget>> targets = ParseTargets(reply->span(), reply->header.target_count);
  RETURN_IF_ERROR(targets);
  if (targets->size() != 1 || (*targets)[0].type != type) {
    return Status::Errno(EINVAL, "DM_TABLE_STATUS", name,
                         std::string("it is not a ") + type + " device");
  }
  return std::optional<std::string>(std::move((*targets)[0].text));
}

Status CheckMessage(const std::string& pool, const std::string& message) {
  if (!message.empty() && message.size() <= kMaxMessage &&
      message.find('\0') == std::string::npos) {
    return Status();
  }
  return Status::Errno(EINVAL, "DM_TARGET_MSG", pool,
                       "a message must have 1 to 255 bytes, without NUL");
}

Result<ThinPoolStatus> SendOne(const DmControl& control, const std::string& pool,
                               const std::string& message) {
  Result<DmReply> reply =
      control.Call({DM_TARGET_MSG, "DM_TARGET_MSG", pool, "", 0, 0, EncodeMessage(message)});
  if (!reply.ok()) {
    const Failure& failure = reply.status().failure();
    return Status::Errno(failure.error, "DM_TARGET_MSG", pool, message);
  }
  Result<std::optional<ThinPoolStatus>> status = PoolStatus(control, pool, false);
  RETURN_IF_ERROR(status);
  if (!status->has_value()) return Status::Errno(ENXIO, "DM_TABLE_STATUS", pool);
  if ((*status)->KeepsMessages()) return **status;
  return Status::Reason(kThinPoolMode, "DM_TARGET_MSG", pool,
                        "thin pool " + pool + " is " + NameOf((*status)->mode) +
                            ((*status)->needs_check ? " needs_check" : "") + " after '" + message +
                            "', which may not have taken effect");
}

}  // namespace

Result<std::optional<ThinPoolStatus>> PoolStatus(const DmControl& control, const std::string& name,
                                                 bool commit) {
  Result<std::optional<std::string>> line = StatusLine(control, name, "thin-pool", commit);
  RETURN_IF_ERROR(line);
  if (!line->has_value()) return std::optional<ThinPoolStatus>();
  Result<ThinPoolStatus> status = ParseThinPoolStatus(**line);
  RETURN_IF_ERROR(status);
  return std::optional<ThinPoolStatus>(*status);
}

Result<ThinPoolStatus> SendMessages(const DmControl& control, const std::string& pool,
                                    const std::vector<std::string>& messages) {
  if (messages.empty()) return Status::Errno(EINVAL, "DM_TARGET_MSG", pool, "no messages");
  for (const std::string& message : messages) {
    RETURN_IF_ERROR(CheckMessage(pool, message));
  }
  for (size_t i = 0;; i++) {
    Result<ThinPoolStatus> status = SendOne(control, pool, messages[i]);
    if (!status.ok() || i + 1 == messages.size()) return status;
  }
}

}  // namespace blockdelta
