// process_clock PID: the CPU time that a process has used so far, in nanoseconds.
//
// All its threads count, user and system, also those that have ended: /proc/PID/task has no time of
// those, and /proc/PID/stat counts in ticks of 10 ms.

#include <sys/types.h>
#include <time.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: process_clock PID\n");
    return 2;
  }
  clockid_t clock;
  timespec time;
  const pid_t pid = static_cast<pid_t>(strtol(argv[1], nullptr, 10));
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0) {
    fprintf(stderr, "process_clock: process %s has no CPU clock\n", argv[1]);
    return 1;
  }
  const uint64_t nanoseconds = static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
  printf("%" PRIu64 "\n", nanoseconds);
  return 0;
}
