// A library to preload into a process under test. Before each step that changes something lasting
// it asks whoever started the process, over a socket, what to do: take the step, let it fail, or
// die.
//
// A step is a call of the C library that changes a file, a directory or an attribute below one of
// the given directories or in /sys, a device, or a mount, or that starts a program. Node.js with
// libstdc++, better-sqlite3, the package ioctl and the addon all call the C library for these;
// replaced is what they import (nm --dynamic --undefined-only). io_uring must be off
// (UV_USE_IO_URING=0).
//
// While something stalls, calls that only look at a path below those directories are asked about as
// well: what does not answer answers no open and no stat either. And the process has a clock of its
// own, which whoever started it puts forward, so that a test need not wait for timeouts: timers of
// Node.js go by it after their event loop has woken up. Waits in the kernel, and programs that the
// process starts, go by the real one.
//
//   BLOCKDELTA_FAULTS_SOCKET  the socket to ask at; without it the library does nothing. Beside it
//                             lies SOCKET.shared, with a struct Shared
//   BLOCKDELTA_FAULTS_ROOTS   the directories, with colons between
//
// Each thread has a connection of its own. A question is a line, "call<TAB>path[<TAB>path]", paths
// without links resolved, the call being "look" for those that change nothing; the answer is one
// byte, and the call waits for it. The process and its
// threads are asked, children only before they execute a program: neither variable nor this library
// stays in the environment.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/btrfs.h>
#include <linux/dm-ioctl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

// Answers; any other number is the errno to fail with. A child that is to execute a program is told
// kDie for its parent's death, which it survives, and kDieAlone for its own. At kHang the program waits
// until somebody writes a line to the FIFO SOCKET.program: it is a shell until then, as the parent
// waits for the execution itself.
enum { kGo = 0, kHang = 253, kDieAlone = 254, kDie = 255 };
enum { kMaxRoots = 8, kMaxArguments = 60 };

struct Shared {
  // What the process's clock is ahead of the real one, in seconds. Never less than before.
  int64_t ahead;
  // Whether calls that only look are asked about.
  int32_t asks_looks;
};

static const volatile struct Shared* shared;
static struct sockaddr_un controller;
static char roots[kMaxRoots][PATH_MAX];
static int root_count;
// The process that is asked: a child between fork and exec is another one. 0: nobody is.
static pid_t asked;
static __thread int connection = -1;

static void MapShared(void) {
  char path[sizeof(controller.sun_path) + sizeof(".shared")];
  snprintf(path, sizeof(path), "%s.shared", controller.sun_path);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd == -1) return;
  void* const mapped = mmap(NULL, sizeof(struct Shared), PROT_READ, MAP_SHARED, fd, 0);
  if (mapped != MAP_FAILED) shared = mapped;
  close(fd);
}

__attribute__((constructor)) static void Start(void) {
  const char* const path = getenv("BLOCKDELTA_FAULTS_SOCKET");
  const char* const list = getenv("BLOCKDELTA_FAULTS_ROOTS");
  if (path == NULL || list == NULL || strlen(path) >= sizeof(controller.sun_path)) return;
  controller.sun_family = AF_UNIX;
  strcpy(controller.sun_path, path);
  MapShared();
  for (const char* begin = list; *begin != '\0' && root_count < kMaxRoots;) {
    const size_t length = strcspn(begin, ":");
    if (length > 0 && length < PATH_MAX) memcpy(roots[root_count++], begin, length);
    begin += length + (begin[length] == ':');
  }
  unsetenv("BLOCKDELTA_FAULTS_SOCKET");
  unsetenv("BLOCKDELTA_FAULTS_ROOTS");
  unsetenv("LD_PRELOAD");
  asked = getpid();
}

static bool IsBelow(const char* path, const char* directory) {
  const size_t length = strlen(directory);
  return strncmp(path, directory, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

// The shared memory of SQLite's log does not outlive its process.
static bool Lasts(const char* path) {
  const size_t length = strlen(path);
  if (length > 4 && strcmp(path + length - 4, "-shm") == 0) return false;
  if (IsBelow(path, "/sys")) return true;
  for (int index = 0; index < root_count; index += 1) {
    if (IsBelow(path, roots[index])) return true;
  }
  return false;
}

static bool PathOf(int fd, char path[PATH_MAX]) {
  char link[64];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, PATH_MAX - 1);
  if (length <= 0) return false;
  path[length] = '\0';
  return path[0] == '/';
}

// Absolute, as the caller gave it, but for a descriptor that it names by its link in /proc. Other
// links are not followed.
static bool Absolute(int directory, const char* name, char path[PATH_MAX]) {
  if (name == NULL) return false;
  char base[PATH_MAX];
  static const char kDescriptors[] = "/proc/self/fd/";
  if (strncmp(name, kDescriptors, strlen(kDescriptors)) == 0) {
    char* rest;
    directory = (int)strtol(name + strlen(kDescriptors), &rest, 10);
    name = *rest == '/' ? rest + 1 : rest;
  } else if (name[0] == '/') {
    return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX;
  }
  const bool is_known =
      directory == AT_FDCWD ? getcwd(base, sizeof(base)) != NULL : PathOf(directory, base);
  if (!is_known) return false;
  if (name[0] == '\0') return snprintf(path, PATH_MAX, "%s", base) < PATH_MAX;
  return snprintf(path, PATH_MAX, "%s/%s", base, name) < PATH_MAX;
}

// A connection, or -1.
static int Connect(void) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd == -1) return -1;
  if (connect(fd, (const struct sockaddr*)&controller, sizeof(controller)) == 0) return fd;
  close(fd);
  return -1;
}

static int Exchange(int fd, const char* question, size_t length) {
  for (size_t sent = 0; sent < length;) {
    const ssize_t count = send(fd, question + sent, length - sent, MSG_NOSIGNAL);
    if (count == -1 && errno == EINTR) continue;
    if (count <= 0) return kGo;
    sent += (size_t)count;
  }
  unsigned char answer;
  ssize_t count;
  do {
    count = recv(fd, &answer, 1, 0);
  } while (count == -1 && errno == EINTR);
  return count == 1 ? answer : kGo;
}

// Whether the step may be taken; otherwise errno says how it has failed.
static bool Ask(const char* call, const char* path, const char* other) {
  if (asked == 0 || getpid() != asked) return true;
  int answer = kGo;
  if (connection == -1) connection = Connect();
  if (connection != -1) {
    char question[2 * PATH_MAX + 64];
    const int length =
        other == NULL ? snprintf(question, sizeof(question), "%s\t%s\n", call, path)
                      : snprintf(question, sizeof(question), "%s\t%s\t%s\n", call, path, other);
    if (length > 0 && (size_t)length < sizeof(question))
      answer = Exchange(connection, question, (size_t)length);
  }
  if (answer == kDie) {
    kill(asked, SIGKILL);
    for (;;) pause();
  }
  errno = answer;
  return answer == kGo;
}

static bool AskFile(const char* call, int fd) {
  char path[PATH_MAX];
  return asked == 0 || !PathOf(fd, path) || !Lasts(path) || Ask(call, path, NULL);
}

static bool AskPath(const char* call, int directory, const char* name) {
  char path[PATH_MAX];
  return asked == 0 || !Absolute(directory, name, path) || !Lasts(path) || Ask(call, path, NULL);
}

static bool AskPaths(const char* call, int directory, const char* name, int other_directory,
                     const char* other_name) {
  char path[PATH_MAX], other[PATH_MAX];
  const bool is_step = asked != 0 && Absolute(directory, name, path) &&
                       Absolute(other_directory, other_name, other) &&
                       (Lasts(path) || Lasts(other));
  return !is_step || Ask(call, path, other);
}

// Whether something stalls decides, not what.
static bool AskLook(int directory, const char* name) {
  if (shared == NULL || shared->asks_looks == 0) return true;
  return AskPath("look", directory, name);
}

// Mounts are steps wherever they are.
static bool AskMount(const char* call, int directory, const char* name) {
  char path[PATH_MAX];
  return asked == 0 || Ask(call, Absolute(directory, name, path) ? path : "?", NULL);
}

#define NAME(request) \
  case request:       \
    return #request;

static const char* NameOfIoctl(unsigned long request) {
  switch (request) {
    NAME(LOOP_SET_FD)
    NAME(LOOP_CLR_FD)
    NAME(LOOP_SET_STATUS)
    NAME(LOOP_SET_STATUS64)
    NAME(LOOP_CHANGE_FD)
    NAME(LOOP_SET_CAPACITY)
    NAME(LOOP_SET_DIRECT_IO)
    NAME(LOOP_SET_BLOCK_SIZE)
    NAME(LOOP_CONFIGURE)
    NAME(LOOP_CTL_ADD)
    NAME(LOOP_CTL_REMOVE)
    NAME(LOOP_CTL_GET_FREE)
    NAME(FIFREEZE)
    NAME(FITHAW)
    NAME(FICLONE)
    NAME(FICLONERANGE)
    NAME(FIDEDUPERANGE)
    NAME(FS_IOC_SETFLAGS)
    NAME(FS_IOC_FSSETXATTR)
    NAME(BLKROSET)
    NAME(BLKFLSBUF)
    NAME(BLKDISCARD)
    NAME(BLKSECDISCARD)
    NAME(BLKZEROOUT)
    NAME(BTRFS_IOC_SNAP_CREATE)
    NAME(BTRFS_IOC_SNAP_CREATE_V2)
    NAME(BTRFS_IOC_SUBVOL_CREATE)
    NAME(BTRFS_IOC_SUBVOL_CREATE_V2)
    NAME(BTRFS_IOC_SNAP_DESTROY)
    NAME(BTRFS_IOC_SNAP_DESTROY_V2)
    NAME(BTRFS_IOC_SUBVOL_SETFLAGS)
    NAME(BTRFS_IOC_RESIZE)
    NAME(BTRFS_IOC_SYNC)
    NAME(BTRFS_IOC_START_SYNC)
    NAME(DM_DEV_CREATE)
    NAME(DM_DEV_REMOVE)
    NAME(DM_DEV_RENAME)
    NAME(DM_DEV_SUSPEND)
    NAME(DM_TABLE_LOAD)
    NAME(DM_TABLE_CLEAR)
    NAME(DM_TARGET_MSG)
    case _IOW('X', 110, char[24]):
      return "XFS_IOC_FSGROWFSDATA";
    case _IOW('f', 16, uint64_t):
      return "EXT4_IOC_RESIZE_FS";
    default:
      return NULL;
  }
}

static bool AskIoctl(int fd, unsigned long request, const void* argument) {
  const char* const name = asked == 0 ? NULL : NameOfIoctl(request);
  if (name == NULL) return true;
  char path[PATH_MAX];
  if (!PathOf(fd, path)) snprintf(path, sizeof(path), "?");
  const bool has_name = _IOC_TYPE(request) == DM_IOCTL && argument != NULL;
  return Ask(name, path, has_name ? ((const struct dm_ioctl*)argument)->name : NULL);
}

static bool Creates(int flags) {
  return (flags & (O_CREAT | O_TRUNC)) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
}

// The next definition of the function that is being replaced.
#define NEXT(name)               \
  static __typeof__(&name) next; \
  if (next == NULL) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

// Whether the step may be taken: then errno is what it was before the question.
#define MAY(question)               \
  ({                                \
    const int before = errno;       \
    const bool answer = (question); \
    if (answer) errno = before;     \
    answer;                         \
  })

#define REPLACE(type, name, parameters, arguments, question) \
  type name parameters {                                     \
    NEXT(name);                                              \
    return MAY(question) ? next arguments : (type)-1;        \
  }

static bool AskOpen(int flags, int directory, const char* path) {
  return Creates(flags) ? AskPath("open", directory, path) : AskLook(directory, path);
}

#define REPLACE_OPEN(name, parameters, arguments, directory)             \
  int name parameters {                                                  \
    mode_t mode = 0;                                                     \
    if (Creates(flags)) {                                                \
      va_list rest;                                                      \
      va_start(rest, flags);                                             \
      mode = va_arg(rest, mode_t);                                       \
      va_end(rest);                                                      \
    }                                                                    \
    NEXT(name);                                                          \
    return MAY(AskOpen(flags, directory, path)) ? next arguments : -1;   \
  }

REPLACE_OPEN(open, (const char* path, int flags, ...), (path, flags, mode), AT_FDCWD)
REPLACE_OPEN(openat, (int at, const char* path, int flags, ...), (at, path, flags, mode), at)

REPLACE(ssize_t, write, (int fd, const void* data, size_t size), (fd, data, size),
        AskFile("write", fd))
REPLACE(ssize_t, pwrite64, (int fd, const void* data, size_t size, off64_t offset),
        (fd, data, size, offset), AskFile("write", fd))
REPLACE(ssize_t, writev, (int fd, const struct iovec* data, int count), (fd, data, count),
        AskFile("write", fd))
REPLACE(ssize_t, pwritev64, (int fd, const struct iovec* data, int count, off64_t offset),
        (fd, data, count, offset), AskFile("write", fd))
REPLACE(ssize_t, sendfile, (int to, int from, off_t* offset, size_t size), (to, from, offset, size),
        AskFile("sendfile", to))
REPLACE(int, ftruncate64, (int fd, off64_t size), (fd, size), AskFile("ftruncate", fd))
REPLACE(int, truncate, (const char* path, off_t size), (path, size),
        AskPath("truncate", AT_FDCWD, path))
REPLACE(int, fallocate64, (int fd, int mode, off64_t offset, off64_t size),
        (fd, mode, offset, size), AskFile("fallocate", fd))
REPLACE(int, fsync, (int fd), (fd), AskFile("fsync", fd))
REPLACE(int, fdatasync, (int fd), (fd), AskFile("fdatasync", fd))
REPLACE(int, syncfs, (int fd), (fd), AskFile("syncfs", fd))
REPLACE(int, fchmod, (int fd, mode_t mode), (fd, mode), AskFile("fchmod", fd))
REPLACE(int, chmod, (const char* path, mode_t mode), (path, mode), AskPath("chmod", AT_FDCWD, path))
REPLACE(int, fchmodat, (int at, const char* path, mode_t mode, int flags), (at, path, mode, flags),
        AskPath("chmod", at, path))
REPLACE(int, fchown, (int fd, uid_t user, gid_t group), (fd, user, group), AskFile("fchown", fd))

REPLACE(int, rename, (const char* from, const char* to), (from, to),
        AskPaths("rename", AT_FDCWD, from, AT_FDCWD, to))
REPLACE(int, renameat2, (int at, const char* from, int other_at, const char* to, unsigned flags),
        (at, from, other_at, to, flags), AskPaths("rename", at, from, other_at, to))
REPLACE(int, link, (const char* from, const char* to), (from, to),
        AskPaths("link", AT_FDCWD, from, AT_FDCWD, to))
REPLACE(int, symlink, (const char* target, const char* path), (target, path),
        AskPath("symlink", AT_FDCWD, path))
REPLACE(int, unlink, (const char* path), (path), AskPath("unlink", AT_FDCWD, path))
REPLACE(int, remove, (const char* path), (path), AskPath("unlink", AT_FDCWD, path))
REPLACE(int, unlinkat, (int at, const char* path, int flags), (at, path, flags),
        AskPath((flags & AT_REMOVEDIR) != 0 ? "rmdir" : "unlink", at, path))
REPLACE(int, rmdir, (const char* path), (path), AskPath("rmdir", AT_FDCWD, path))
REPLACE(int, mkdir, (const char* path, mode_t mode), (path, mode), AskPath("mkdir", AT_FDCWD, path))
REPLACE(int, mkdirat, (int at, const char* path, mode_t mode), (at, path, mode),
        AskPath("mkdir", at, path))
REPLACE(int, mknod, (const char* path, mode_t mode, dev_t device), (path, mode, device),
        AskPath("mknod", AT_FDCWD, path))
REPLACE(int, fsetxattr, (int fd, const char* name, const void* data, size_t size, int flags),
        (fd, name, data, size, flags), AskFile("setxattr", fd))

REPLACE(int, mount,
        (const char* source, const char* path, const char* type, unsigned long flags,
         const void* options),
        (source, path, type, flags, options), AskMount("mount", AT_FDCWD, path))
REPLACE(int, umount2, (const char* path, int flags), (path, flags),
        AskMount("umount", AT_FDCWD, path))

REPLACE(int, stat64, (const char* path, struct stat64* found), (path, found),
        AskLook(AT_FDCWD, path))
REPLACE(int, lstat64, (const char* path, struct stat64* found), (path, found),
        AskLook(AT_FDCWD, path))
REPLACE(int, fstatat64, (int at, const char* path, struct stat64* found, int flags),
        (at, path, found, flags), AskLook(at, path))
REPLACE(int, statfs64, (const char* path, struct statfs64* found), (path, found),
        AskLook(AT_FDCWD, path))
REPLACE(int, access, (const char* path, int mode), (path, mode), AskLook(AT_FDCWD, path))
REPLACE(int, scandir64,
        (const char* path, struct dirent64*** names, int (*filter)(const struct dirent64*),
         int (*compare)(const struct dirent64**, const struct dirent64**)),
        (path, names, filter, compare), AskLook(AT_FDCWD, path))

DIR* opendir(const char* path) {
  NEXT(opendir);
  return MAY(AskLook(AT_FDCWD, path)) ? next(path) : NULL;
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  NEXT(clock_gettime);
  const int result = next(clock, now);
  const bool is_time = clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE ||
                       clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  if (result == 0 && is_time && shared != NULL) now->tv_sec += shared->ahead;
  return result;
}

int gettimeofday(struct timeval* now, void* zone) {
  NEXT(gettimeofday);
  const int result = next(now, zone);
  if (result == 0 && shared != NULL) now->tv_sec += shared->ahead;
  return result;
}

char* mkdtemp(char* template) {
  NEXT(mkdtemp);
  return MAY(AskPath("mkdir", AT_FDCWD, template)) ? next(template) : NULL;
}

REPLACE(int, mkstemp64, (char* template), (template), AskPath("open", AT_FDCWD, template))

// Offsets have 64 bits under either name.
#define SAME(other, name) extern __typeof__(name) other __attribute__((alias(#name), copy(name)))

SAME(open64, open);
SAME(openat64, openat);
SAME(sendfile64, sendfile);

int ioctl(int fd, unsigned long request, ...) {
  va_list rest;
  va_start(rest, request);
  void* const argument = va_arg(rest, void*);
  va_end(rest);
  NEXT(ioctl);
  return MAY(AskIoctl(fd, request, argument)) ? next(fd, request, argument) : -1;
}

// The program in the arguments of a command: the last one that lies where programs do, behind what
// confines it.
static const char* ProgramIn(char* const arguments[]) {
  static const char* const kDirectories[] = {"/usr/local/", "/usr/sbin", "/usr/bin", "/sbin",
                                             "/bin"};
  const char* found = arguments[0];
  for (int index = 0; arguments[index] != NULL; index += 1) {
    for (size_t at = 0; at < sizeof(kDirectories) / sizeof(kDirectories[0]); at += 1) {
      if (strncmp(arguments[index], kDirectories[at], strlen(kDirectories[at])) == 0) {
        found = arguments[index];
      }
    }
  }
  return found;
}

// The command of a shell that becomes the program later.
static void Postpone(const char* file, char* const arguments[], char fifo[PATH_MAX],
                     char* command[kMaxArguments + 1]) {
  snprintf(fifo, PATH_MAX, "%s.program", controller.sun_path);
  char* const shell[] = {"/bin/sh", "-c", "read -r _ <\"$0\" && exec \"$@\"", fifo, (char*)file};
  int count = 0;
  for (; count < 5; count += 1) command[count] = shell[count];
  for (int index = 1; arguments[index] != NULL && count < kMaxArguments; index += 1) {
    command[count++] = arguments[index];
  }
  command[count] = NULL;
}

// In a child, between fork and exec. The question's connection is its own.
int execvp(const char* file, char* const arguments[]) {
  NEXT(execvp);
  if (asked == 0 || getpid() == asked || getppid() != asked) return next(file, arguments);
  const int fd = Connect();
  char question[PATH_MAX + 64];
  const int length = snprintf(question, sizeof(question), "exec\t%s\n", ProgramIn(arguments));
  const bool is_whole = length > 0 && (size_t)length < sizeof(question);
  const int answer = fd == -1 || !is_whole ? kGo : Exchange(fd, question, (size_t)length);
  if (answer == kDieAlone) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
  }
  if (answer == kHang) {
    char fifo[PATH_MAX];
    char* command[kMaxArguments + 1];
    Postpone(file, arguments, fifo, command);
    return next(command[0], command);
  }
  if (answer == kDie) kill(asked, SIGKILL);
  if (answer != kGo && answer != kDie) {
    errno = answer;
    return -1;
  }
  return next(file, arguments);
}

// An error number, not -1.
int posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                const posix_spawnattr_t* attributes, char* const arguments[],
                char* const environment[]) {
  NEXT(posix_spawn);
  if (!MAY(Ask("spawn", path, NULL))) return errno;
  return next(pid, path, actions, attributes, arguments, environment);
}

// Steps that a caller makes by number, as there was no function for them.
static bool AskSyscall(long number, const long a[6]) {
  switch (number) {
    case SYS_copy_file_range:
      return AskFile("copy_file_range", (int)a[2]);
    // struct open_how begins with the flags.
    case SYS_openat2:
      return AskOpen((int)*(const uint64_t*)a[2], (int)a[0], (const char*)a[1]);
    case SYS_statx:
      return AskLook((int)a[0], (const char*)a[1]);
    case SYS_umount2:
      return AskMount("umount", AT_FDCWD, (const char*)a[0]);
    case SYS_fsopen:
      return Ask("fsopen", (const char*)a[0], NULL);
    case SYS_fsmount:
      return Ask("fsmount", "", NULL);
    case SYS_open_tree:
      return (a[2] & OPEN_TREE_CLONE) == 0 || AskMount("open_tree", (int)a[0], (const char*)a[1]);
    case SYS_move_mount:
      return AskMount("move_mount", (int)a[2], (const char*)a[3]);
    case SYS_mount_setattr:
      return AskMount("mount_setattr", (int)a[0], (const char*)a[1]);
    default:
      return true;
  }
}

long syscall(long number, ...) {
  long a[6];
  va_list rest;
  va_start(rest, number);
  for (int index = 0; index < 6; index += 1) a[index] = va_arg(rest, long);
  va_end(rest);
  NEXT(syscall);
  return MAY(AskSyscall(number, a)) ? next(number, a[0], a[1], a[2], a[3], a[4], a[5]) : -1;
}
