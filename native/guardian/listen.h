// The socket at which a guardian waits for plugins whose end it must outlive.
#ifndef BLOCKDELTA_NATIVE_GUARDIAN_LISTEN_H_
#define BLOCKDELTA_NATIVE_GUARDIAN_LISTEN_H_

namespace blockdelta::guardian {

// Listens at `path` and forks for each connection of a process with the user of this one. The child
// has the connection as kSocket, a session of its own and all signals blocked, and exits with what
// `serve` returns.
//
// Returns an exit code: 0 after SIGTERM or SIGINT, when the operations that had begun have ended; 1
// if it cannot listen, with a message on stderr. A socket that nobody listens at is replaced.
int Listen(const char* path, int (*serve)());

}  // namespace blockdelta::guardian

#endif  // BLOCKDELTA_NATIVE_GUARDIAN_LISTEN_H_
