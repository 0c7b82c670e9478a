// The guardian: a process that freezes file systems and suspends devices on behalf of the plugin,
// and outlives it.
//
//   blockdelta-guardian                  serves one snapshot operation over descriptor 3
//   blockdelta-guardian --listen PATH    makes a socket, and serves each connection in a process of
//                                        its own
//
// The plugin must not freeze or thaw by itself. A process killed while it thaws a btrfs forces the
// file system read-only (Linux 6.18: the kernel reads the superblock in a wait that a kill
// interrupts), and a process killed before it thaws leaves every writer blocked. The same holds for
// suspending and resuming a device, which freeze and thaw its file system. A guardian serves one
// snapshot operation and exits when its socket closes, after it has released everything it still
// holds. A time limit also ends a hold, even while the plugin waits in the kernel. A freeze that
// hangs keeps the guardian from releasing anything else, so the plugin uses one guardian per
// object. A guardian opens no paths of others, allocates no memory, and knows nothing of volumes or
// the plugin.
#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <linux/fs.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
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

// Retries of the final release while the kernel is short of memory.
constexpr int kReleaseTries = 100;
constexpr useconds_t kReleasePauseUs = 20'000;

struct Held {
  int fd;           // A mount point or the control node; -1 if released.
  uint32_t device;  // 0 for a mount point.
};
Held held[kMaxHeld];
uint32_t held_count = 0;

constexpr uint64_t kNsPerMs = 1'000'000;
// Time at which the holds end, by CLOCK_MONOTONIC; see Order::kLimit.
uint64_t limit_ns = UINT64_MAX;
// Whether everything was released then. A release of an empty slot is then answered with ETIMEDOUT.
bool has_let_go = false;

// Returns an errno, or 0.
int Try(int fd, unsigned long request, void* argument = nullptr) {
  int result;
  do {
    result = ioctl(fd, request, argument);
  } while (result == -1 && errno == EINTR);
  return result == -1 ? errno : 0;
}

// `flags` contains the flags of the call and receives those of the device.
int TryDevice(const Held& object, unsigned long request, uint32_t* flags) {
  struct dm_ioctl call = {};
  call.version[0] = DM_VERSION_MAJOR;
  call.data_size = sizeof(call);
  call.data_start = sizeof(call);
  call.dev = object.device;
  call.flags = *flags;
  const int error = Try(object.fd, request, &call);
  *flags = call.flags;
  return error;
}

int IsSuspended(const Held& device, bool* is_suspended) {
  uint32_t flags = 0;
  const int error = TryDevice(device, DM_DEV_STATUS, &flags);
  *is_suspended = (flags & DM_SUSPEND_FLAG) != 0;
  return error;
}

// EBUSY if the device is already suspended. The kernel reports that, as EINVAL, only if another
// suspension begins and ends meanwhile. `flags` is DM_SKIP_LOCKFS_FLAG or 0.
int Suspend(const Held& device, uint32_t flags) {
  bool is_suspended;
  int error = IsSuspended(device, &is_suspended);
  if (error != 0) return error;
  if (is_suspended) return EBUSY;
  flags |= DM_SUSPEND_FLAG;
  error = TryDevice(device, DM_DEV_SUSPEND, &flags);
  return error == EINVAL ? EBUSY : error;
}

// EINVAL if the device is not suspended. EIO if its table cannot be made live, which the kernel
// reports as EINVAL too.
int Resume(const Held& device) {
  bool is_suspended;
  int error = IsSuspended(device, &is_suspended);
  if (error != 0) return error;
  if (!is_suspended) return EINVAL;
  uint32_t flags = 0;
  error = TryDevice(device, DM_DEV_SUSPEND, &flags);
  return error == EINVAL ? EIO : error;
}

uint64_t NowNs() {
  struct timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// Returns the descriptor passed with a message; -1 if there is none, or if there were others, which
// the kernel has dropped.
int TakeDescriptor(struct msghdr* message) {
  const struct cmsghdr* header = CMSG_FIRSTHDR(message);
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(sizeof(int))) {
    return -1;
  }
  int fd;
  std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
  if ((message->msg_flags & MSG_CTRUNC) == 0) return fd;
  close(fd);
  return -1;
}

Reply Release(uint32_t slot) {
  if (slot >= held_count) return {slot, EBADF, 0};
  if (held[slot].fd == -1) return {slot, has_let_go ? ETIMEDOUT : EBADF, 0};
  Held& object = held[slot];
  const int error = object.device == 0 ? Try(object.fd, FITHAW) : Resume(object);
  const uint64_t ended_ns = NowNs();
  // EINVAL means that the object is not frozen or suspended, ENXIO that the device is gone.
  // ReleaseAll() retries any other failure.
  if (error == 0 || error == EINVAL || error == ENXIO) {
    close(object.fd);
    object.fd = -1;
  }
  return {slot, error, ended_ns};
}

void ReleaseAll() {
  has_let_go = true;
  for (int tries = 0; tries < kReleaseTries; tries++) {
    bool is_left = false;
    for (uint32_t slot = 0; slot < held_count; slot++) {
      if (held[slot].fd != -1) Release(slot);
      is_left = is_left || held[slot].fd != -1;
    }
    if (!is_left) return;
    usleep(kReleasePauseUs);
  }
}

// Any other adopted descriptor, such as the other end of its socket, could keep this process alive.
bool IsMountPointOrNode(const Held& object) {
  struct stat found;
  if (fstat(object.fd, &found) != 0) return false;
  return object.device == 0 ? S_ISDIR(found.st_mode) : S_ISCHR(found.st_mode);
}

int Begin(Order order, const Held& object) {
  if (order == Order::kAdopt) return IsMountPointOrNode(object) ? 0 : EBADF;
  if (order == Order::kSuspend) return Suspend(object, DM_SKIP_LOCKFS_FLAG);
  return object.device == 0 ? Try(object.fd, FIFREEZE) : Suspend(object, 0);
}

Reply Hold(const Request& request, int fd) {
  if (fd == -1) return {0, EBADF, 0};
  const Held object = {fd, request.number};
  const uint64_t begun_ns = NowNs();
  int error = held_count == kMaxHeld ? EMFILE : 0;
  if (begun_ns >= limit_ns) error = ETIMEDOUT;
  if (error == 0) error = Begin(request.order, object);
  if (error != 0) {
    close(fd);
    return {0, error, begun_ns};
  }
  held[held_count++] = object;
  if (NowNs() < limit_ns) return {held_count - 1, 0, begun_ns};
  ReleaseAll();
  return {held_count - 1, ETIMEDOUT, begun_ns};
}

// A guardian that was stopped for a while must not begin what nobody waits for.
bool IsPeerGone() {
  struct pollfd peer = {kSocket, POLLRDHUP, 0};
  return poll(&peer, 1, 0) == 1;
}

Reply Limit(uint32_t milliseconds) {
  limit_ns = NowNs() + milliseconds * kNsPerMs;
  has_let_go = false;
  return {0, 0, limit_ns};
}

// Waits for a request; meanwhile releases everything when the limit passes.
void Await() {
  while (limit_ns != UINT64_MAX && !has_let_go) {
    const uint64_t now_ns = NowNs();
    const uint64_t left_ms = now_ns < limit_ns ? (limit_ns - now_ns) / kNsPerMs + 1 : 0;
    struct pollfd request = {kSocket, POLLIN, 0};
    if (poll(&request, 1, static_cast<int>(std::min<uint64_t>(left_ms, INT_MAX))) == 1) return;
    if (NowNs() >= limit_ns) ReleaseAll();
  }
}

// Serves one request. False if the peer has closed the socket or sent an invalid request.
bool Serve() {
  Await();
  Request request = {};
  struct iovec data = {&request, sizeof(request)};
  alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  struct msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  // Excludes the padding, which has room for a second descriptor.
  message.msg_controllen = CMSG_LEN(sizeof(int));
  ssize_t size;
  do {
    size = recvmsg(kSocket, &message, MSG_CMSG_CLOEXEC);
  } while (size == -1 && errno == EINTR);
  if (size != sizeof(request) || (message.msg_flags & MSG_TRUNC) != 0) return false;
  const int fd = TakeDescriptor(&message);
  if (IsPeerGone()) return false;
  Reply reply = {0, ENOSYS, 0};
  const Order order = request.order;
  if (order == Order::kFreeze || order == Order::kAdopt || order == Order::kSuspend) {
    reply = Hold(request, fd);
  } else {
    if (fd != -1) close(fd);
    if (order == Order::kRelease) reply = Release(request.number);
    if (order == Order::kLimit) reply = Limit(request.number);
  }
  return send(kSocket, &reply, sizeof(reply), MSG_NOSIGNAL) == sizeof(reply);
}

// Exempts this process from the OOM killer, raises its priority (every writer of a frozen file
// system waits for it) and closes the descriptors it has inherited. Skips the steps that are not
// permitted. It was started after setsid(2) with all signals blocked.
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
  ReleaseAll();
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
