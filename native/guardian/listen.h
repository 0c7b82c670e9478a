// The socket at which a guardian waits for plugins that it must outlive.
#ifndef BLOCKDELTA_NATIVE_GUARDIAN_LISTEN_H_
#define BLOCKDELTA_NATIVE_GUARDIAN_LISTEN_H_

namespace blockdelta::guardian {

// Listens at `path` and forks for each connection from a process of its own user. The child calls
// setsid(2), has the connection as kSocket and all signals blocked, and exits with the result of
// `serve`.
//
// Returns an exit code: 0 after SIGTERM or SIGINT, once all operations have ended; 1 if it cannot
// listen, with a message on stderr. A socket that nobody listens at is replaced.
int Listen(const char* path, int (*serve)());

}  // namespace blockdelta::guardian

#endif  // BLOCKDELTA_NATIVE_GUARDIAN_LISTEN_H_
