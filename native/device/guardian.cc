#include "native/device/guardian.h"

#include <dlfcn.h>
#include <linux/fs.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace blockdelta {
namespace {

using guardian::Order;
using guardian::Reply;
using guardian::Request;

constexpr char kProgram[] = "blockdelta-guardian";
// Timeouts for a guardian that was stopped; the end of one is noticed at once. A freeze writes back
// dirty data, which takes as long as the disk needs.
constexpr int kFreezeMs = 600'000;
constexpr int kAnswerMs = 60'000;
// Extra time for the answer of a guardian whose limit has passed.
constexpr uint64_t kGraceMs = 500;

Result<std::string> ProgramPath() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void*>(&ProgramPath), &info) == 0 ||
      info.dli_fname == nullptr) {
    return Status::Errno(ENOENT, "dladdr", kProgram, "the path of this shared object is unknown");
  }
  return DirectoryOf(info.dli_fname) + "/" + kProgram;
}

// Arguments of posix_spawn(3), released on destruction.
class SpawnPlan {
 public:
  SpawnPlan() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
  }
  ~SpawnPlan() {
    posix_spawnattr_destroy(&attributes_);
    posix_spawn_file_actions_destroy(&actions_);
  }
  SpawnPlan(const SpawnPlan&) = delete;

  // Returns an errno, or 0.
  int Run(const std::string& program, int socket, pid_t* pid) {
    sigset_t all;
    sigfillset(&all);
    int error = posix_spawn_file_actions_adddup2(&actions_, socket, guardian::kSocket);
    if (error == 0) error = posix_spawnattr_setsigmask(&attributes_, &all);
    if (error == 0) {
      error = posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
    }
    char name[sizeof(kProgram)];
    std::memcpy(name, kProgram, sizeof(name));
    char* const arguments[] = {name, nullptr};
    char* const environment[] = {nullptr};
    if (error != 0) return error;
    return posix_spawn(pid, program.c_str(), &actions_, &attributes_, arguments, environment);
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

bool Send(int socket, const Request& request, int fd) {
  Request copy = request;
  struct iovec data = {&copy, sizeof(copy)};
  alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  struct msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (fd != -1) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    struct cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  }
  return RetryInterrupted([&] { return sendmsg(socket, &message, MSG_NOSIGNAL); }) ==
         sizeof(request);
}

// Waits for a message or the end of the peer. False after the timeout.
bool WaitFor(int socket, int timeout_ms) {
  const uint64_t end = ClockNs(CLOCK_MONOTONIC) / 1'000'000 + static_cast<uint64_t>(timeout_ms);
  for (;;) {
    struct pollfd wait = {socket, POLLIN, 0};
    const int ready = poll(&wait, 1, timeout_ms);
    if (ready != -1 || errno != EINTR) return ready == 1;
    const uint64_t now = ClockNs(CLOCK_MONOTONIC) / 1'000'000;
    timeout_ms = now < end ? static_cast<int>(end - now) : 0;
  }
}

}  // namespace

Result<Guardian> Guardian::Start(const std::optional<std::string>& socket) {
  return socket.has_value() ? Connect(*socket) : Spawn();
}

Result<Guardian> Guardian::Connect(const std::string& path) {
  constexpr char kCall[] = "connect";
  struct sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return Status::Errno(ENAMETOOLONG, kCall, path);
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Status::Errno(errno, "socket", path);
  const auto* const generic = reinterpret_cast<const struct sockaddr*>(&address);
  if (RetryInterrupted([&] { return connect(fd.get(), generic, sizeof(address)); }) == -1) {
    return Status::Errno(errno, kCall, path,
                         "snapshots need it; does blockdelta-guardian run there?");
  }
  // A process of another user that listens there must not receive mount points.
  struct ucred peer = {};
  socklen_t size = sizeof(peer);
  if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == -1) {
    return Status::Errno(errno, kCall, path);
  }
  if (peer.uid != geteuid()) {
    return Status::Errno(EPERM, kCall, path,
                         "the process that listens there runs as user " + std::to_string(peer.uid));
  }
  return Guardian(0, std::move(fd));
}

Result<Guardian> Guardian::Spawn() {
  Result<std::string> program = ProgramPath();
  RETURN_IF_ERROR(program);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == -1) {
    return Status::Errno(errno, "socketpair", *program);
  }
  UniqueFd own(ends[0]);
  // dup2 of a descriptor onto itself would keep its close-on-exec flag, and exec would close it.
  UniqueFd other(fcntl(ends[1], F_DUPFD_CLOEXEC, guardian::kSocket + 1));
  close(ends[1]);
  if (!other.valid()) return Status::Errno(errno, "fcntl", *program);
  pid_t pid = 0;
  const int error = SpawnPlan().Run(*program, other.get(), &pid);
  if (error != 0) {
    return Status::Errno(error, "posix_spawn", *program,
                         "snapshots need it; is the package built completely?");
  }
  return Guardian(pid, std::move(own));
}

Guardian::Guardian(Guardian&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      end_ns_(other.end_ns_),
      socket_(std::move(other.socket_)) {}

Guardian::~Guardian() {
  if (!socket_.valid()) return;
  shutdown(socket_.get(), SHUT_WR);
  // The guardian closes its end after it has released everything.
  if (WaitFor(socket_.get(), kAnswerMs)) {
    static_cast<void>(Lost("", ""));
  } else {
    GiveUp();
  }
}

Status Guardian::Limit(uint64_t end_ns) {
  const uint64_t now_ns = ClockNs(CLOCK_MONOTONIC);
  const uint64_t left_ms = now_ns < end_ns ? (end_ns - now_ns) / kNsPerMs : 0;
  const auto number = static_cast<uint32_t>(std::min<uint64_t>(left_ms, UINT32_MAX));
  end_ns_ = end_ns;
  Result<Reply> reply = Ask({Order::kLimit, number}, -1, "kLimit", kProgram);
  RETURN_IF_ERROR(reply);
  return Status();
}

Result<Guardian::Held> Guardian::Hold(const Request& request, int fd, const char* call,
                                      const std::string& object) {
  Result<Reply> reply = Ask(request, fd, call, object);
  RETURN_IF_ERROR(reply);
  return Held{reply->slot, reply->at_ns};
}

Result<uint64_t> Guardian::Release(const Held& held, const char* call, const std::string& object) {
  Result<Reply> reply = Ask({Order::kRelease, held.slot}, -1, call, object);
  RETURN_IF_ERROR(reply);
  return reply->at_ns - held.begun_ns;
}

Result<Reply> Guardian::Ask(const Request& request, int fd, const char* call,
                            const std::string& object) {
  if (!socket_.valid() || !Send(socket_.get(), request, fd)) return Lost(call, object);
  if (!WaitFor(socket_.get(), AnswerMs(request.order))) {
    GiveUp();
    return Status::Errno(ETIMEDOUT, call, object, "it has not ended in time");
  }
  Reply reply = {};
  if (RetryInterrupted([&] { return recv(socket_.get(), &reply, sizeof(reply), 0); }) !=
      sizeof(reply)) {
    return Lost(call, object);
  }
  if (reply.error == 0) return reply;
  const char* detail = "";
  if (reply.error == ENOSYS) {
    detail = "the guardian is of an older release; start that of the plugin's";
  } else if (reply.error == EPERM || reply.error == EACCES) {
    detail = "the guardian needs CAP_SYS_ADMIN";
  }
  return Status::Errno(reply.error, call, object, detail);
}

int Guardian::AnswerMs(Order order) const {
  if (order == Order::kRelease) return kAnswerMs;
  if (end_ns_ == UINT64_MAX) return kFreezeMs;
  const uint64_t now_ns = ClockNs(CLOCK_MONOTONIC);
  const uint64_t left_ms = now_ns < end_ns_ ? (end_ns_ - now_ns) / kNsPerMs : 0;
  return static_cast<int>(std::min<uint64_t>(left_ms + kGraceMs, kFreezeMs));
}

Result<Reply> Guardian::Lost(const char* call, const std::string& object) {
  if (pid_ != 0) RetryInterrupted([&] { return waitpid(pid_, nullptr, 0); });
  pid_ = 0;
  socket_.Close();
  return Status::Errno(ESTALE, call, object, "the guardian process was lost");
}

void Guardian::GiveUp() {
  // The guardian may have been stopped. Nobody reaps it, so it stays until this process ends.
  if (pid_ != 0) kill(pid_, SIGCONT);
  pid_ = 0;
  socket_.Close();
}

}  // namespace blockdelta
