#include "native/base/status.h"

#include <cstring>

namespace blockdelta {

Status Status::Errno(int error, const char* syscall, std::string path, const std::string& detail) {
  // strerror() is not thread-safe; these glibc tables are constant.
  const char* name = strerrorname_np(error);
  const char* description = strerrordesc_np(error);
  std::string after = ": ";
  after += description != nullptr ? description : "unknown error";
  if (!detail.empty()) after += " (" + detail + ")";
  std::string before = path.empty() ? syscall : std::string(syscall) + " ";
  std::string code = name != nullptr ? name : "E" + std::to_string(error);
  return Status(Failure{std::move(code), error, syscall, std::move(path), std::move(before),
                        std::move(after)});
}

Status Status::Scan(const char* reason, std::string path, std::string before, std::string after) {
  return Reason(reason, "scan", std::move(path), std::move(before), std::move(after));
}

Status Status::Reason(const char* code, const char* call, std::string path, std::string before,
                      std::string after) {
  return Status(Failure{code, 0, call, std::move(path), std::move(before), std::move(after)});
}

}  // namespace blockdelta
