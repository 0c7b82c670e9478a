#include "native/guardian/listen.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "native/guardian/protocol.h"

namespace blockdelta::guardian {
namespace {

// Connections that may wait to be accepted; the plugin has at most one per device thread.
constexpr int kBacklog = 64;

// Prints the path with the text of errno. Returns the exit code.
int Complain(const char* path) {
  std::fprintf(stderr, "blockdelta-guardian: %s: %m\n", path);
  return 1;
}

// Whether the socket is one that a killed process left.
bool IsLeftOver(const struct sockaddr_un& address) {
  struct stat state;
  if (lstat(address.sun_path, &state) == -1 || !S_ISSOCK(state.st_mode)) return false;
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd == -1) return false;
  const bool is_refused =
      connect(fd, reinterpret_cast<const struct sockaddr*>(&address), sizeof(address)) == -1 &&
      errno == ECONNREFUSED;
  close(fd);
  return is_refused;
}

// A listening socket of mode 0600, or -1 with errno.
int Bind(const struct sockaddr_un& address) {
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd == -1) return -1;
  const auto* const generic = reinterpret_cast<const struct sockaddr*>(&address);
  const mode_t mask = umask(0177);
  int result = bind(fd, generic, sizeof(address));
  if (result == -1 && errno == EADDRINUSE && IsLeftOver(address)) {
    result = unlink(address.sun_path) == -1 ? -1 : bind(fd, generic, sizeof(address));
  }
  umask(mask);
  if (result == 0) result = listen(fd, kBacklog);
  if (result == 0) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

// Mount points are accepted only from processes of this user.
bool IsFromOwnUser(int connection) {
  struct ucred peer = {};
  socklen_t size = sizeof(peer);
  return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == geteuid();
}

void Accept(int listener, int (*serve)()) {
  const int connection = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (connection == -1) {
    // This process is out of descriptors or memory: the connection stays in the queue.
    if (errno != EINTR && errno != ECONNABORTED) usleep(10'000);
    return;
  }
  // If fork() fails, the plugin sees the end of its connection and reports that.
  if (IsFromOwnUser(connection) && fork() == 0) {
    setsid();
    if (connection != kSocket) dup2(connection, kSocket);
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    _exit(serve());
  }
  close(connection);
}

}  // namespace

int Listen(const char* path, int (*serve)()) {
  struct sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const size_t length = std::strlen(path);
  if (length == 0 || length >= sizeof(address.sun_path)) {
    errno = length == 0 ? EINVAL : ENAMETOOLONG;
    return Complain(path);
  }
  std::memcpy(address.sun_path, path, length);
  // The kernel reaps the children. A signalfd receives SIGTERM and SIGINT, because the first
  // process of a container has no default actions for signals.
  signal(SIGCHLD, SIG_IGN);
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  const int signals = signalfd(-1, &ends, SFD_CLOEXEC);
  if (signals == -1) return Complain(path);
  const int listener = Bind(address);
  if (listener == -1) return Complain(path);
  for (;;) {
    struct pollfd waits[] = {{signals, POLLIN, 0}, {listener, POLLIN, 0}};
    if (poll(waits, 2, -1) == -1) continue;
    if (waits[0].revents != 0) break;
    if (waits[1].revents != 0) Accept(listener, serve);
  }
  close(listener);
  unlink(path);
  // waitpid() fails when no child is left, because SIGCHLD is ignored.
  while (waitpid(-1, nullptr, 0) != -1 || errno == EINTR) {
  }
  return 0;
}

}  // namespace blockdelta::guardian
