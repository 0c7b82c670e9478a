// What a program may do on the network: serve one socket, or connect to one port.
#ifndef BLOCKDELTA_NATIVE_CONFINE_NETWORK_ACCESS_H_
#define BLOCKDELTA_NATIVE_CONFINE_NETWORK_ACCESS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "native/base/status.h"

namespace blockdelta {

// Listens on a TCP address, "127.0.0.1:10809" or "[::1]:10809", and gives the socket to the program
// that this process executes, by systemd's protocol of socket activation (sd_listen_fds(3)): as
// descriptor 3, which is replaced. Prints a line with the port, which the kernel has chosen if the
// given one is 0: from now on, connections wait for the program. Returns what the program needs in
// its environment. EINVAL for anything but a numeric address and port, EADDRINUSE and other errnos
// from the kernel.
Result<std::vector<std::string>> ListenFor(const std::string& address);

// Forbids TCP but for connections to `port`, if there is one: see landlock(7). Sockets that exist
// are not affected. Does nothing before Linux 6.7. Needs no_new_privs.
Status RestrictTcp(std::optional<uint16_t> port);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_CONFINE_NETWORK_ACCESS_H_
