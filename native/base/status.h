// The outcome of everything that can fail in the native core: success, or one described failure.
//
// Nothing here throws. A failure carries what the caller needs to map it (an errno name or a SCAN_*
// reason) and what a human needs to understand it (system call, object, sentence). It must not know
// JavaScript, gRPC or any device.
#ifndef BLOCKDELTA_NATIVE_BASE_STATUS_H_
#define BLOCKDELTA_NATIVE_BASE_STATUS_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace blockdelta {

// Reasons why a scan cannot give a sound list. They take the place of an errno name.
inline constexpr char kScanReplaced[] = "SCAN_REPLACED";
inline constexpr char kScanMutable[] = "SCAN_MUTABLE";
inline constexpr char kScanUnsupported[] = "SCAN_UNSUPPORTED";
inline constexpr char kScanMapInvalid[] = "SCAN_MAP_INVALID";
// Not now: what is read changes faster than it can be read. Trying again may help.
inline constexpr char kScanBusy[] = "SCAN_BUSY";
// Thin metadata that is not what the format says; the message names the block.
inline constexpr char kThinMetadataInvalid[] = "THIN_METADATA_INVALID";

struct Failure {
  std::string code;  // "ENOSPC" or a SCAN_* reason.
  int error;         // errno; 0 for a SCAN_* reason.
  std::string syscall;
  std::string path;  // The object the call was about; may be empty.
  std::string message;
};

class [[nodiscard]] Status {
 public:
  // Success.
  Status() = default;

  // A failed system call. `error` must have been read from errno right after the call; `detail`
  // says more than strerror can, or is empty.
  static Status Errno(int error, const char* syscall, std::string path, const std::string& detail);
  static Status Errno(int error, const char* syscall, std::string path) {
    return Errno(error, syscall, std::move(path), std::string());
  }
  // `reason` is one of the SCAN_* constants.
  static Status Scan(const char* reason, std::string path, std::string message);
  // A failure that no errno describes: `code` takes the place of its name.
  static Status Reason(const char* code, const char* call, std::string path, std::string message);

  bool ok() const { return failure_ == nullptr; }
  // REQUIRES: !ok().
  const Failure& failure() const { return *failure_; }
  bool Is(const char* code) const { return failure_ != nullptr && failure_->code == code; }
  bool IsErrno(int error) const { return failure_ != nullptr && failure_->error == error; }

 private:
  explicit Status(Failure failure) : failure_(std::make_unique<Failure>(std::move(failure))) {}

  std::unique_ptr<Failure> failure_;
};

// A value, or the failure that prevented it.
template <typename T>
class [[nodiscard]] Result {
 public:
  // Implicit, so that functions can return either plainly.
  Result(T&& value) : value_(std::move(value)) {}
  Result(const T& value) : value_(value) {}
  // REQUIRES: !status.ok().
  Result(Status&& status) : status_(std::move(status)) {}

  bool ok() const { return value_.has_value(); }
  // REQUIRES: ok().
  T& operator*() { return *value_; }
  T* operator->() { return &*value_; }
  const Status& status() const { return status_; }
  Status TakeStatus() { return std::move(status_); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_BASE_STATUS_H_
