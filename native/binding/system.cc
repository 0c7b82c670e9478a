// Bindings of what Node.js lacks and tools use as well: file locks, and a timer that ends the
// process.
#include <napi.h>
#include <signal.h>
#include <sys/file.h>
#include <time.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "native/base/posix.h"
#include "native/base/status.h"
#include "native/binding/functions.h"
#include "native/binding/values.h"

namespace blockdelta {
namespace {

constexpr uint64_t kLongestTimerMs = 3'600'000;
constexpr long kNsPerMs = 1'000'000;

}  // namespace

Napi::Value TryLockBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "tryLock");
  const auto descriptor = static_cast<int>(request.Integer("descriptor", INT32_MAX));
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  const int result = RetryInterrupted([&] { return flock(descriptor, LOCK_EX | LOCK_NB); });
  if (result == -1 && errno != EWOULDBLOCK) {
    return Failed(info.Env(), Status::Errno(errno, "flock", std::string()));
  }
  return BooleanResult(info.Env(), "locked", result == 0);
}

Napi::Value StartKillTimerBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "startKillTimer");
  const uint64_t ms = request.Integer("milliseconds", kLongestTimerMs);
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  struct sigevent event = {};
  event.sigev_notify = SIGEV_SIGNAL;
  // The only signal that ends a process that is stopped.
  event.sigev_signo = SIGKILL;
  timer_t timer;
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) {
    return Failed(info.Env(), Status::Errno(errno, "timer_create", std::string()));
  }
  struct itimerspec when = {};
  when.it_value.tv_sec = static_cast<time_t>(ms / 1000);
  when.it_value.tv_nsec = static_cast<long>(ms % 1000) * kNsPerMs;
  if (timer_settime(timer, 0, &when, nullptr) != 0) {
    const Status failed = Status::Errno(errno, "timer_settime", std::string());
    timer_delete(timer);
    return Failed(info.Env(), failed);
  }
  Napi::Object result = Success(info.Env());
  // A number of the kernel's, unless threads are notified (glibc).
  SetNumber(&result, "timer", reinterpret_cast<uintptr_t>(timer));
  return result;
}

Napi::Value StopKillTimerBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], "stopKillTimer");
  const auto timer = static_cast<intptr_t>(request.Integer("timer", INT32_MAX));
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  if (timer_delete(reinterpret_cast<timer_t>(timer)) != 0) {
    return Failed(info.Env(), Status::Errno(errno, "timer_delete", std::string()));
  }
  return StatusResult(info.Env(), Status());
}

}  // namespace blockdelta
