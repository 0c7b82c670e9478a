#include "native/confine/system_call_filter.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <vector>

namespace blockdelta {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "the filter of system calls knows x86-64 and 64-bit ARM"
#endif
// The first number of x32, the second system call numbering of x86-64.
constexpr uint32_t kFirstForeignCall = 0x40000000;

constexpr uint32_t kForbidden[] = {
#ifdef SYS_fork
    SYS_fork,
    SYS_vfork,
#endif
    SYS_socketpair,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_pidfd_open,
    SYS_kill,
    SYS_tkill,
    SYS_unshare,
    SYS_setns,
    SYS_chroot,
    SYS_pivot_root,
    SYS_mount,
    SYS_umount2,
    SYS_open_tree,
    SYS_move_mount,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_io_uring_setup,
    SYS_io_setup,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_open_by_handle_at,
    SYS_name_to_handle_at,
    SYS_fanotify_init,
    SYS_quotactl,
    SYS_swapon,
    SYS_swapoff,
    SYS_reboot,
    SYS_acct,
    SYS_syslog,
    SYS_memfd_create,
    SYS_shmget,
    SYS_msgget,
    SYS_semget,
    SYS_mq_open,
};

constexpr uint32_t kOffsetOfNumber = offsetof(struct seccomp_data, nr);
constexpr uint32_t kOffsetOfArchitecture = offsetof(struct seccomp_data, arch);
// The low half of an argument; both architectures are little-endian.
constexpr uint32_t OffsetOfArgument(uint32_t index) {
  return static_cast<uint32_t>(offsetof(struct seccomp_data, args) + index * sizeof(uint64_t));
}

class Filter {
 public:
  void Load(uint32_t offset) { Add(BPF_LD | BPF_W | BPF_ABS, 0, 0, offset); }
  void Return(uint32_t what) { Add(BPF_RET | BPF_K, 0, 0, what); }
  // The next instruction runs only if the condition in the name holds.
  void UnlessEqual(uint32_t value) { Add(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, value); }
  void IfEqual(uint32_t value) { Add(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, value); }
  void IfAtLeast(uint32_t value) { Add(BPF_JMP | BPF_JGE | BPF_K, 0, 1, value); }
  void UnlessAnyBit(uint32_t bits) { Add(BPF_JMP | BPF_JSET | BPF_K, 1, 0, bits); }
  // Skips `length` instructions unless the value equals `value`.
  void BlockIfEqual(uint32_t value, uint8_t length) {
    Add(BPF_JMP | BPF_JEQ | BPF_K, 0, length, value);
  }

  Status Install() {
    struct sock_fprog program = {static_cast<unsigned short>(code_.size()), code_.data()};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == -1) {
      return Status::Errno(errno, "PR_SET_SECCOMP", "");
    }
    return Status();
  }

 private:
  void Add(uint16_t code, uint8_t if_true, uint8_t if_false, uint32_t value) {
    code_.push_back({code, if_true, if_false, value});
  }

  std::vector<struct sock_filter> code_;
};

constexpr uint32_t Refuse(int error) {
  return SECCOMP_RET_ERRNO | (static_cast<uint32_t>(error) & SECCOMP_RET_DATA);
}

}  // namespace

Status FilterSystemCalls(Sockets sockets) {
  Filter filter;
  filter.Load(kOffsetOfArchitecture);
  filter.UnlessEqual(kArchitecture);
  filter.Return(SECCOMP_RET_KILL_PROCESS);
  filter.Load(kOffsetOfNumber);
  filter.IfAtLeast(kFirstForeignCall);
  filter.Return(SECCOMP_RET_KILL_PROCESS);
  for (const uint32_t number : kForbidden) {
    filter.IfEqual(number);
    filter.Return(Refuse(EPERM));
  }
  if (sockets == Sockets::kInternet) {
    filter.BlockIfEqual(SYS_socket, 6);
    filter.Load(OffsetOfArgument(0));
    filter.IfEqual(AF_INET);
    filter.Return(SECCOMP_RET_ALLOW);
    filter.IfEqual(AF_INET6);
    filter.Return(SECCOMP_RET_ALLOW);
    filter.Return(Refuse(EPERM));
  } else {
    filter.IfEqual(SYS_socket);
    filter.Return(Refuse(EPERM));
    // A socket that listens could be made to connect.
    filter.IfEqual(SYS_connect);
    filter.Return(Refuse(EPERM));
  }
  // A filter cannot read the flags of clone3, so the C library must fall back to clone.
  filter.IfEqual(SYS_clone3);
  filter.Return(Refuse(ENOSYS));
  filter.BlockIfEqual(SYS_clone, 4);
  filter.Load(OffsetOfArgument(0));
  filter.UnlessAnyBit(CLONE_THREAD);
  filter.Return(Refuse(EPERM));
  filter.Return(SECCOMP_RET_ALLOW);
  // The program may signal itself, as abort() does.
  filter.BlockIfEqual(SYS_tgkill, 4);
  filter.Load(OffsetOfArgument(0));
  filter.UnlessEqual(static_cast<uint32_t>(getpid()));
  filter.Return(Refuse(EPERM));
  filter.Return(SECCOMP_RET_ALLOW);
  filter.BlockIfEqual(SYS_ioctl, 5);
  filter.Load(OffsetOfArgument(1));
  filter.IfEqual(static_cast<uint32_t>(BLKBSZSET));
  filter.Return(Refuse(0));
  filter.IfEqual(static_cast<uint32_t>(BLKFLSBUF));
  filter.Return(Refuse(0));
  filter.Return(SECCOMP_RET_ALLOW);
  return filter.Install();
}

}  // namespace blockdelta
