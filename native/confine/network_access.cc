#include "native/confine/network_access.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>
#include <vector>

#include "native/base/unique_fd.h"
#include "native/confine/landlock.h"

namespace blockdelta {
namespace {

// SD_LISTEN_FDS_START.
constexpr int kFirstListenFd = 3;
constexpr int kBacklog = 16;
constexpr size_t kMaxPortDigits = 5;

struct Address {
  sockaddr_storage bytes = {};
  socklen_t size = 0;
};

Result<Address> ParseAddress(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == text.npos || colon == 0) {
    return Status::Errno(EINVAL, "parse", text, "not an address and a port");
  }
  const std::string port = text.substr(colon + 1);
  if (port.empty() || port.size() > kMaxPortDigits ||
      port.find_first_not_of("0123456789") != port.npos || atoi(port.c_str()) > UINT16_MAX) {
    return Status::Errno(EINVAL, "parse", text, "not a port");
  }
  const uint16_t number = htons(static_cast<uint16_t>(atoi(port.c_str())));
  Address address;
  if (text[0] == '[' && text[colon - 1] == ']') {
    auto* in = reinterpret_cast<sockaddr_in6*>(&address.bytes);
    in->sin6_family = AF_INET6;
    in->sin6_port = number;
    address.size = sizeof *in;
    if (inet_pton(AF_INET6, text.substr(1, colon - 2).c_str(), &in->sin6_addr) == 1) return address;
  } else {
    auto* in = reinterpret_cast<sockaddr_in*>(&address.bytes);
    in->sin_family = AF_INET;
    in->sin_port = number;
    address.size = sizeof *in;
    if (inet_pton(AF_INET, text.substr(0, colon).c_str(), &in->sin_addr) == 1) return address;
  }
  return Status::Errno(EINVAL, "parse", text, "not a numeric address");
}

// Gives a socket its number, without FD_CLOEXEC.
Status PassOn(UniqueFd fd) {
  if (fd.get() != kFirstListenFd) {
    if (dup2(fd.get(), kFirstListenFd) == -1) return Status::Errno(errno, "dup2", "");
    return Status();
  }
  if (fcntl(fd.Release(), F_SETFD, 0) == -1) return Status::Errno(errno, "fcntl", "");
  return Status();
}

Status PrintPort(int fd, const std::string& text) {
  Address bound;
  bound.size = sizeof bound.bytes;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&bound.bytes), &bound.size) == -1) {
    return Status::Errno(errno, "getsockname", text);
  }
  // The port is at the same place in the addresses of both families.
  const uint16_t port = ntohs(reinterpret_cast<const sockaddr_in*>(&bound.bytes)->sin_port);
  const std::string line = std::to_string(port) + "\n";
  const ssize_t written = write(STDOUT_FILENO, line.data(), line.size());
  if (written != static_cast<ssize_t>(line.size())) return Status::Errno(errno, "write", "stdout");
  return Status();
}

}  // namespace

Result<std::vector<std::string>> ListenFor(const std::string& text) {
  Result<Address> address = ParseAddress(text);
  RETURN_IF_ERROR(address);
  UniqueFd fd(socket(address->bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd.get() == -1) return Status::Errno(errno, "socket", text);
  // A connection of an earlier program may still be closing.
  const int on = 1;
  if (setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == -1) {
    return Status::Errno(errno, "setsockopt", text);
  }
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address->bytes), address->size) == -1) {
    return Status::Errno(errno, "bind", text);
  }
  if (listen(fd.get(), kBacklog) == -1) return Status::Errno(errno, "listen", text);
  RETURN_IF_ERROR(PrintPort(fd.get(), text));
  RETURN_IF_ERROR(PassOn(std::move(fd)));
  return std::vector<std::string>{"LISTEN_FDS=1", "LISTEN_PID=" + std::to_string(getpid())};
}

Status RestrictTcp(std::optional<uint16_t> port) {
  Result<int> version = LandlockVersion();
  RETURN_IF_ERROR(version);
  if (*version < kTcpVersion) return Status();
  Result<Ruleset> rules = Ruleset::Make({0, kBindTcp | kConnectTcp, 0});
  RETURN_IF_ERROR(rules);
  if (port.has_value()) RETURN_IF_ERROR(rules->AllowTcp(*port, kConnectTcp));
  return rules->Apply();
}

}  // namespace blockdelta
