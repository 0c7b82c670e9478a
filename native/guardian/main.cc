// The guardian: a process that freezes and thaws file systems on behalf of the plugin and outlives
// it.
//
//   blockdelta-guardian                  serves one snapshot operation over descriptor 3
//   blockdelta-guardian --listen PATH    makes a socket, and serves each connection in a process of
//                                        its own
//
// The plugin must not freeze or thaw itself. A process killed while it thaws a btrfs forces the
// file system read-only (Linux 6.18: the kernel reads the superblock in a wait that a kill
// interrupts), and a process killed before it thaws leaves every writer blocked. A guardian serves
// one snapshot operation and exits when its socket closes, after it has thawed every file system it
// still holds. It opens no paths, allocates no memory, and knows nothing of volumes or the plugin.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "native/guardian/listen.h"
#include "native/guardian/protocol.h"

namespace {

using blockdelta::guardian::kMaxHeld;
using blockdelta::guardian::kSocket;
using blockdelta::guardian::Order;
using blockdelta::guardian::Reply;
using blockdelta::guardian::Request;

// Retries of the final thaw while the kernel is short of memory.
constexpr int kThawTries = 100;
constexpr useconds_t kThawPauseUs = 20'000;

// Descriptors of the held mount points; -1: thawed.
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

// The descriptor passed with a message, or -1.
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

Reply Thaw(uint32_t slot) {
  if (slot >= held_count || held[slot] == -1) return {slot, EBADF, 0};
  const int error = Try(held[slot], FITHAW);
  const uint64_t ended_ns = NowNs();
  // EINVAL: the file system is not frozen. ThawAll() retries any other failure.
  if (error == 0 || error == EINVAL) {
    close(held[slot]);
    held[slot] = -1;
  }
  return {slot, error, ended_ns};
}

// Serves one request. False: the peer has closed the socket or sent an invalid request.
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
      reply = Thaw(request.slot);
      break;
    default:
      return false;
  }
  return send(kSocket, &reply, sizeof(reply), MSG_NOSIGNAL) == sizeof(reply);
}

void ThawAll() {
  for (int tries = 0; tries < kThawTries; tries++) {
    bool is_left = false;
    for (uint32_t slot = 0; slot < held_count; slot++) {
      if (held[slot] != -1) Thaw(slot);
      is_left = is_left || held[slot] != -1;
    }
    if (!is_left) return;
    usleep(kThawPauseUs);
  }
}

// Exempts this process from the OOM killer, raises its priority (every writer of a frozen file
// system waits for it) and closes the descriptors it has inherited. Skips what it is not permitted
// to do. It was started in its own session with all signals blocked.
void DetachFromPlugin() {
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

int ServeOperation() {
  DetachFromPlugin();
  while (Serve()) {
  }
  ThawAll();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 1) return ServeOperation();
  if (argc == 3 && std::strcmp(argv[1], "--listen") == 0) {
    return blockdelta::guardian::Listen(argv[2], ServeOperation);
  }
  std::fputs("usage: blockdelta-guardian --listen PATH\n", stderr);
  return 2;
}
