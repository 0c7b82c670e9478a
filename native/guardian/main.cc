// The guardian: a process that freezes file systems and thaws them, and that outlives whoever
// asked.
//
// A process that is killed while it thaws a btrfs forces the file system read-only (Linux 6.18: the
// kernel reads the superblock with a wait that a kill interrupts), and one that is killed before it
// thaws leaves everybody waiting who writes. So the plugin does neither itself. A guardian serves
// one cut and ends with its socket: what it still holds then, it thaws. It opens no path, allocates
// no memory, and knows neither volumes nor the plugin.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "native/guardian/protocol.h"

namespace {

using blockdelta::guardian::kMaxHeld;
using blockdelta::guardian::kSocket;
using blockdelta::guardian::Order;
using blockdelta::guardian::Reply;
using blockdelta::guardian::Request;

// Tries to thaw what is left at the end, where the kernel has no memory for a moment.
constexpr int kThawTries = 100;
constexpr useconds_t kThawPauseUs = 20'000;

// Descriptors of what is held; -1: thawed, or never frozen.
int held[kMaxHeld];
uint32_t held_count = 0;

int Try(int fd, unsigned long request) {
  int result;
  do {
    result = ioctl(fd, request, 0);
  } while (result == -1 && errno == EINTR);
  return result == -1 ? errno : 0;
}

uint64_t NowNs() {
  struct timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// The descriptor that came with a message, or -1.
int TakeDescriptor(struct msghdr* message) {
  const struct cmsghdr* header = CMSG_FIRSTHDR(message);
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(sizeof(int))) {
    return -1;
  }
  int fd;
  std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
  return fd;
}

Reply Hold(Order order, int fd) {
  if (fd == -1) return {0, EBADF, 0};
  const uint64_t begun_ns = NowNs();
  int error = held_count == kMaxHeld ? EMFILE : 0;
  if (error == 0 && order == Order::kFreeze) error = Try(fd, FIFREEZE);
  if (error != 0) {
    close(fd);
    return {0, error, begun_ns};
  }
  held[held_count] = fd;
  return {held_count++, 0, begun_ns};
}

Reply Thaw(uint32_t place) {
  if (place >= held_count || held[place] == -1) return {place, EBADF, 0};
  const int error = Try(held[place], FITHAW);
  const uint64_t ended_ns = NowNs();
  // EINVAL: it is not frozen. What fails in another way is tried again at the end.
  if (error == 0 || error == EINVAL) {
    close(held[place]);
    held[place] = -1;
  }
  return {place, error, ended_ns};
}

// False: the other end is gone, or says what nobody understands.
bool Serve() {
  Request request = {};
  struct iovec data = {&request, sizeof(request)};
  alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  struct msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t size;
  do {
    size = recvmsg(kSocket, &message, MSG_CMSG_CLOEXEC);
  } while (size == -1 && errno == EINTR);
  if (size != sizeof(request)) return false;
  const int fd = TakeDescriptor(&message);
  Reply reply;
  switch (request.order) {
    case Order::kFreeze:
    case Order::kAdopt:
      reply = Hold(request.order, fd);
      break;
    case Order::kThaw:
      if (fd != -1) close(fd);
      reply = Thaw(request.place);
      break;
    default:
      return false;
  }
  return send(kSocket, &reply, sizeof(reply), MSG_NOSIGNAL) == sizeof(reply);
}

void ThawAll() {
  for (int tries = 0; tries < kThawTries; tries++) {
    bool is_left = false;
    for (uint32_t place = 0; place < held_count; place++) {
      if (held[place] != -1) Thaw(place);
      is_left = is_left || held[place] != -1;
    }
    if (!is_left) return;
    usleep(kThawPauseUs);
  }
}

// Away from a shortage of memory, ahead of others for the processor (everybody waits who writes to
// what stands still), and without whatever descriptors the plugin had open. What is not permitted
// is done without. It was started in a session of its own, with all signals blocked.
void StandAlone() {
  const int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (score != -1) {
    [[maybe_unused]] const ssize_t written = write(score, "-1000", 5);
    close(score);
  }
  setpriority(PRIO_PROCESS, 0, -20);
  for (int fd = 0; fd < kSocket; fd++) close(fd);
  syscall(SYS_close_range, kSocket + 1, ~0u, 0);
  struct rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
}

}  // namespace

int main() {
  StandAlone();
  while (Serve()) {
  }
  ThawAll();
  return 0;
}
