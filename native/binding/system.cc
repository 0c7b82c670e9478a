// Bindings of functions that Node.js lacks and that tools also use: file locks, and a timer that
// ends the process.
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

Result<bool> TryLock(int descriptor) {
  const int result = RetryInterrupted([&] { return flock(descriptor, LOCK_EX | LOCK_NB); });
  if (result == -1 && errno != EWOULDBLOCK) return Status::Errno(errno, "flock", std::string());
  return result == 0;
}

// Returns the timer_t as a number. In glibc it is the kernel's number unless it notifies threads.
Result<uintptr_t> StartKillTimer(uint64_t ms) {
  struct sigevent event = {};
  event.sigev_notify = SIGEV_SIGNAL;
  // SIGKILL is the only signal that ends a stopped process.
  event.sigev_signo = SIGKILL;
  timer_t timer;
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) {
    return Status::Errno(errno, "timer_create", std::string());
  }
  struct itimerspec when = {};
  when.it_value.tv_sec = static_cast<time_t>(ms / 1000);
  when.it_value.tv_nsec = static_cast<long>(ms % 1000 * kNsPerMs);
  if (timer_settime(timer, 0, &when, nullptr) != 0) {
    Status failed = Status::Errno(errno, "timer_settime", std::string());
    timer_delete(timer);
    return failed;
  }
  return reinterpret_cast<uintptr_t>(timer);
}

Status StopKillTimer(intptr_t timer) {
  if (timer_delete(reinterpret_cast<timer_t>(timer)) == 0) return Status();
  return Status::Errno(errno, "timer_delete", std::string());
}

Napi::Value TryLockBinding(Fields* request) {
  const auto descriptor = static_cast<int>(request->Integer("descriptor", INT32_MAX));
  return AnswerValue(request, "locked", [&] { return TryLock(descriptor); });
}

Napi::Value StartKillTimerBinding(Fields* request) {
  const uint64_t ms = request->Integer("milliseconds", kLongestTimerMs);
  return Answer(
      request, [&] { return StartKillTimer(ms); },
      [](Napi::Object* answer, uintptr_t timer) { SetNumber(answer, "timer", timer); });
}

Napi::Value StopKillTimerBinding(Fields* request) {
  const auto timer = static_cast<intptr_t>(request->Integer("timer", INT32_MAX));
  return AnswerStatus(request, [&] { return StopKillTimer(timer); });
}

}  // namespace

void ExportSystem(Napi::Object* exports) {
  Export<TryLockBinding>(exports, "tryLock");
  Export<StartKillTimerBinding>(exports, "startKillTimer");
  Export<StopKillTimerBinding>(exports, "stopKillTimer");
}

}  // namespace blockdelta
