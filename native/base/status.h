// The outcome of every operation that can fail in the native code: success, or one described
// failure.
//
// Nothing here throws. A failure carries what the caller needs to map it (an errno name or another
// code) and what an operator needs to understand it (system call, object, message). Knows nothing
// of JavaScript, gRPC or any device.
#ifndef BLOCKDELTA_NATIVE_BASE_STATUS_H_
#define BLOCKDELTA_NATIVE_BASE_STATUS_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace blockdelta {

// Codes of scans that cannot return a sound list. They take the place of an errno name.
inline constexpr char kScanReplaced[] = "SCAN_REPLACED";
inline constexpr char kScanMutable[] = "SCAN_MUTABLE";
inline constexpr char kScanUnsupported[] = "SCAN_UNSUPPORTED";
inline constexpr char kScanMapInvalid[] = "SCAN_MAP_INVALID";
// A stored change list that must not be believed. The message names the file.
inline constexpr char kListInvalid[] = "LIST_INVALID";
// The metadata changes faster than it can be read. A retry may succeed.
inline constexpr char kScanBusy[] = "SCAN_BUSY";
// Thin metadata that violates its on-disk format. The message names the block.
inline constexpr char kThinMetadataInvalid[] = "THIN_METADATA_INVALID";

struct Failure {
  std::string code;     // An errno name ("ENOSPC") or one of the codes above.
  int error;            // errno; 0 if `code` is not an errno name.
  std::string syscall;  // The system call or operation that failed.
  std::string path;     // The object it acted on; may be empty.
  // The message is what stands before and after the path, so that a caller who knows the object by
  // another path can name that. If `after` is empty, `before` is the whole message.
  std::string before;
  std::string after;

  std::string Message() const { return after.empty() ? before : before + path + after; }
};

class [[nodiscard]] Status {
 public:
  // Success.
  Status() = default;

  // A failed system call. Read `error` from errno right after the call. `detail` adds what
  // strerror(3) does not say; it may be empty.
  static Status Errno(int error, const char* syscall, std::string path, const std::string& detail);
  static Status Errno(int error, const char* syscall, std::string path) {
    return Errno(error, syscall, std::move(path), std::string());
  }
  // `reason` is one of the SCAN_* constants.
  static Status Scan(const char* reason, std::string path, std::string before,
                     std::string after = "");
  // A failure that no errno describes: `code` replaces the errno name.
  static Status Reason(const char* code, const char* call, std::string path, std::string before,
                       std::string after = "");

  bool ok() const { return failure_ == nullptr; }
  // REQUIRES: !ok().
  const Failure& failure() const { return *failure_; }
  bool Is(const char* code) const { return failure_ != nullptr && failure_->code == code; }
  bool IsErrno(int error) const { return failure_ != nullptr && failure_->error == error; }

 private:
  explicit Status(Failure failure) : failure_(std::make_unique<Failure>(std::move(failure))) {}

  std::unique_ptr<Failure> failure_;
};

// A value, or the failure that took its place.
template <typename T>
class [[nodiscard]] Result {
 public:
  // Implicit, so that a function can return a value or a Status.
  Result(T&& value) : value_(std::move(value)) {}
  Result(const T& value) : value_(value) {}
  // REQUIRES: !status.ok().
  Result(Status&& status) : status_(std::move(status)) {}

  bool ok() const { return value_.has_value(); }
  // REQUIRES: ok().
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const Status& status() const { return status_; }
  Status TakeStatus() { return std::move(status_); }

 private:
  std::optional<T> value_;
  Status status_;
};

// The failure of an outcome, moved out of it; success if it has none. For RETURN_IF_ERROR.
inline Status TakeFailure(Status&& status) { return std::move(status); }
inline Status TakeFailure(Status& status) { return std::move(status); }
template <typename T>
Status TakeFailure(Result<T>& result) {
  return result.ok() ? Status() : result.TakeStatus();
}

// Ends the calling function with the failure of a Status, or of a Result that has a name, if there
// is one.
#define RETURN_IF_ERROR(outcome) \
  if (auto failed = ::blockdelta::TakeFailure(outcome); !failed.ok()) return failed

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_BASE_STATUS_H_
