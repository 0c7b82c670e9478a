// The guardian: file systems are thawed, whichever process is killed while they are frozen.
#include "native/device/guardian.h"

#include <gtest/gtest.h>
#include <linux/fs.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "native/device/freeze.h"
#include "native/device/take_snapshots.h"
#include "native/device/write_counters.h"
#include "test/native/pool.h"
#include "test/native/random_seed.h"
#include "test/native/status_assertions.h"

namespace blockdelta::test {
namespace {

constexpr uint64_t kSize = 64 << 20;
// For a test that would wait for ever otherwise.
constexpr int kGiveUpMs = 60'000;

class GuardianTest : public InXfs {};

Result<Freeze> Hold(Guardian* guardian, const std::string& mount_point) {
  return Freeze::Begin(guardian, Open(mount_point, O_RDONLY | O_DIRECTORY), mount_point);
}

// Starts a process that freezes the file systems and waits to be killed, when they are frozen.
pid_t StartHolder(const std::vector<std::string>& mount_points,
                  const std::optional<std::string>& socket) {
  int ends[2];
  const bool piped = pipe2(ends, O_CLOEXEC) == 0;
  EXPECT_TRUE(piped);
  if (!piped) return -1;
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    Result<Guardian> guardian = Guardian::Start(socket);
    std::vector<Freeze> freezes;
    for (const std::string& mount_point : mount_points) {
      if (!guardian.ok()) _exit(1);
      Result<Freeze> freeze = Hold(&*guardian, mount_point);
      if (!freeze.ok()) _exit(1);
      freezes.push_back(std::move(*freeze));
    }
    if (write(ends[1], "f", 1) == 1) pause();
    _exit(1);
  }
  close(ends[1]);
  char byte = 0;
  EXPECT_EQ(read(ends[0], &byte, 1), 1);
  close(ends[0]);
  return pid;
}

// Whether a file can be written to the end, by another process, which would wait on a frozen one.
bool CanWrite(const std::string& mount_point) {
  const pid_t pid = fork();
  if (pid == 0) {
    const int fd = open((mount_point + "/file").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    _exit(fd != -1 && write(fd, "written", 7) == 7 && fsync(fd) == 0 ? 0 : 1);
  }
  int status = -1;
  for (int waited = 0; waitpid(pid, &status, WNOHANG) == 0; waited += 10) {
    if (waited >= kGiveUpMs) {
      static_cast<void>(ThawPath(mount_point));
      waitpid(pid, nullptr, 0);
      return false;
    }
    SleepMs(10);
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool IsFrozen(const std::string& mount_point) {
  const UniqueFd mount = Open(mount_point, O_RDONLY | O_DIRECTORY);
  const bool is_frozen = ioctl(mount.get(), FIFREEZE, 0) == -1 && errno == EBUSY;
  if (!is_frozen) static_cast<void>(ThawPath(mount_point));
  return is_frozen;
}

// Kills processes while they hold the file systems frozen.
void ExpectWritableAfterKills(const std::vector<std::string>& mount_points,
                              const std::optional<std::string>& socket = std::nullopt) {
  for (int round = 0; round < (IsNightly() ? 200 : 5); round++) {
    const pid_t holder = StartHolder(mount_points, socket);
    if (holder <= 0) return;
    for (const std::string& mount_point : mount_points) EXPECT_TRUE(IsFrozen(mount_point));
    kill(holder, SIGKILL);
    waitpid(holder, nullptr, 0);
    for (const std::string& mount_point : mount_points) EXPECT_TRUE(CanWrite(mount_point));
  }
}

TEST_F(GuardianTest, H19FileSystemsStayWritableWhenTheirPluginIsKilledWhileTheyAreFrozen) {
  const std::vector<std::string> mount_points = {Make("ext4", "ext4", kSize)->mount_point(),
                                                 Make("xfs", "xfs", 300 << 20)->mount_point(),
                                                 Make("btrfs", "btrfs", 128 << 20)->mount_point()};
  ExpectWritableAfterKills(mount_points);
}

TEST_F(GuardianTest, H19AFileSystemIsThawedWhenItsGuardianIsKilled) {
  Volume* const volume = Make("volume", "ext4", kSize);
  ASSERT_VALUE(guardian, Guardian::Start());
  ASSERT_VALUE(freeze, Hold(&guardian, volume->mount_point()));
  kill(guardian.pid(), SIGKILL);
  EXPECT_OK(freeze.Thaw());
  EXPECT_TRUE(volume->IsThawed());
  EXPECT_CODE(Hold(&guardian, volume->mount_point()), "ESTALE");
  EXPECT_TRUE(volume->IsThawed());
}

TEST_F(GuardianTest, AFreezeEndsAtItsLimitAndALaterOneOfAnotherProgramIsLeftAlone) {
  Volume* const volume = Make("volume", "ext4", kSize);
  const std::string& mount_point = volume->mount_point();
  const auto soon = [] { return ClockNs(CLOCK_MONOTONIC) + 100'000'000; };
  {
    ASSERT_VALUE(guardian, Guardian::Start());
    EXPECT_OK(guardian.Limit(soon()));
    ASSERT_VALUE(freeze, Hold(&guardian, mount_point));
    // Nobody asks the guardian for it.
    EXPECT_TRUE(CanWrite(mount_point));
    EXPECT_TRUE(RunCommand("fsfreeze -f " + mount_point));
    EXPECT_CODE(freeze.Thaw(), "ETIMEDOUT");
    EXPECT_CODE(Hold(&guardian, mount_point), "ETIMEDOUT");
    EXPECT_TRUE(IsFrozen(mount_point));
  }
  EXPECT_TRUE(IsFrozen(mount_point));
  EXPECT_TRUE(RunCommand("fsfreeze -u " + mount_point));
  // A later limit begins anew.
  ASSERT_VALUE(guardian, Guardian::Start());
  EXPECT_OK(guardian.Limit(soon()));
  EXPECT_OK(guardian.Limit(ClockNs(CLOCK_MONOTONIC) + 600'000'000'000));
  ASSERT_VALUE(freeze, Hold(&guardian, mount_point));
  EXPECT_OK(freeze.Thaw());
}

TEST_F(GuardianTest, AFileSystemThatAnotherHasThawedMeanwhileIsAFailure) {
  Volume* const volume = Make("volume", "ext4", kSize);
  ASSERT_VALUE(guardian, Guardian::Start());
  ASSERT_VALUE(freeze, Hold(&guardian, volume->mount_point()));
  EXPECT_OK(ThawPath(volume->mount_point()));
  EXPECT_CODE(freeze.Thaw(), "ESTALE");
}

TEST_F(GuardianTest, H19AGuardianEndsWithItsParentThawsWhatIsLeftAndLeavesNoProcess) {
  Volume* const volume = Make("volume", "ext4", kSize);
  pid_t pid = 0;
  {
    ASSERT_VALUE(guardian, Guardian::Start());
    pid = guardian.pid();
    EXPECT_EQ(getsid(pid), pid);
    const UniqueFd mount = Open(volume->mount_point(), O_RDONLY | O_DIRECTORY);
    const guardian::Request freeze = {guardian::Order::kFreeze, 0};
    EXPECT_OK(guardian.Hold(freeze, mount.get(), "FIFREEZE", volume->mount_point()));
    EXPECT_CODE(guardian.Hold(freeze, mount.get(), "FIFREEZE", volume->mount_point()), "EBUSY");
    EXPECT_CODE(guardian.Release({7, 0}, "FITHAW", volume->mount_point()), "EBADF");
  }
  EXPECT_TRUE(kill(pid, 0) == -1 && errno == ESRCH);
  EXPECT_TRUE(volume->IsThawed());
}

// A group whose second freeze hangs: the loop device of that volume cannot write, because the file
// system that its file is in is frozen.
class HungFreezeTest : public InXfs {
 protected:
  HungFreezeTest()
      : first_(Make("first", "ext4", kSize)), second_(stuck_, "second", "xfs", 320 << 20) {
    EXPECT_TRUE(RunCommand("fsfreeze -f " + stuck_.mount_point()));
    members_ = {first_->Member("first.snapshot"), second_.Member("")};
    // Whether it hangs is decided before any clone.
    members_[1].names = Names(At("second.snapshot"));
  }
  ~HungFreezeTest() override { LetGo(); }

  void LetGo() { RunCommand("fsfreeze -u " + stuck_.mount_point()); }

  Volume* const first_;
  const Pool stuck_{"xfs"};
  Volume second_;
  std::vector<NewSnapshotFile> members_;
};

TEST_F(HungFreezeTest, EndsWithTheLimitAndIsLiftedWhenItEndsAfterAll) {
  SnapshotAids aids;
  aids.freezing.limit_ms = 200;
  Result<TakenSnapshots> taken = TakeSnapshots(members_, aids);
  // On a busy machine the first freeze, which does not hang, may need longer than that.
  while (!taken.ok() && taken.status().failure().path == first_->mount_point() &&
         aids.freezing.limit_ms < kGiveUpMs) {
    aids.freezing.limit_ms *= 5;
    taken = TakeSnapshots(members_, aids);
  }
  EXPECT_CODE(taken, "ETIMEDOUT");
  EXPECT_EQ(taken.status().failure().syscall, "FIFREEZE");
  EXPECT_EQ(taken.status().failure().path, second_.mount_point());
  EXPECT_TRUE(CanWrite(first_->mount_point()));
  EXPECT_FALSE(Exists(At("first.snapshot")));
  EXPECT_OK(TakeSnapshots({members_[0]}));
  LetGo();
  EXPECT_TRUE(CanWrite(second_.mount_point()));
}

TEST_F(HungFreezeTest, H19KeepsNoOtherFileSystemFrozenWhenThePluginIsKilled) {
  const pid_t plugin = fork();
  if (plugin == 0) {
    static_cast<void>(TakeSnapshots(members_));
    _exit(1);
  }
  // The freeze of the second file system, which begins when the first is frozen.
  const auto hangs = [&] { return ValueOf(HasWriteInFlight(StateOf(second_.loop()).st_rdev)); };
  for (int waited = 0; waited < kGiveUpMs && !hangs(); waited += 10) SleepMs(10);
  EXPECT_TRUE(hangs());
  EXPECT_TRUE(IsFrozen(first_->mount_point()));
  kill(plugin, SIGKILL);
  EXPECT_TRUE(CanWrite(first_->mount_point()));
  LetGo();
  waitpid(plugin, nullptr, 0);
  EXPECT_TRUE(CanWrite(second_.mount_point()));
}

// blockdelta-guardian --listen, until it is destroyed.
class Listener {
 public:
  explicit Listener(std::string path) : path_(std::move(path)), pid_(fork()) {
    if (pid_ == 0) {
      const std::string program =
          DirectoryOf(std::filesystem::read_symlink("/proc/self/exe")) + "/blockdelta-guardian";
      execl(program.c_str(), program.c_str(), "--listen", path_.c_str(), nullptr);
      _exit(127);
    }
  }
  ~Listener() { End(SIGKILL); }
  Listener(const Listener&) = delete;

  // Waits until it listens.
  bool Answers() const {
    for (int waited = 0; waited < kGiveUpMs; waited += 10) {
      if (Guardian::Start(path_).ok()) return true;
      SleepMs(10);
    }
    return false;
  }
  // Returns what waitpid() does.
  int End(int signal) {
    int status = 0;
    if (pid_ <= 0) return status;
    kill(pid_, signal);
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return status;
  }

 private:
  std::string path_;
  pid_t pid_;
};

TEST_F(GuardianTest, H19AGuardianThatListensThawsWhenThePluginAndAllItsChildrenAreKilled) {
  const std::vector<std::string> mount_points = {Make("ext4", "ext4", kSize)->mount_point(),
                                                 Make("btrfs", "btrfs", 128 << 20)->mount_point()};
  const std::string socket = At("guardian.sock");
  const Listener listener(socket);
  ASSERT_TRUE(listener.Answers());
  ExpectWritableAfterKills(mount_points, socket);
}

TEST_F(GuardianTest, H19AGuardianThatListensEndsAfterItsLastOperation) {
  Volume* const volume = Make("volume", "ext4", kSize);
  Listener listener(At("guardian.sock"));
  ASSERT_TRUE(listener.Answers());
  ASSERT_VALUE(guardian, Guardian::Start(At("guardian.sock")));
  ASSERT_VALUE(freeze, Hold(&guardian, volume->mount_point()));
  std::thread end([&] { EXPECT_EQ(listener.End(SIGTERM), 0); });
  // It removes its socket before it waits.
  for (int waited = 0; waited < kGiveUpMs && Exists(At("guardian.sock")); waited += 10) SleepMs(10);
  EXPECT_TRUE(IsFrozen(volume->mount_point()));
  EXPECT_OK(freeze.Thaw());
  EXPECT_TRUE(volume->IsThawed());
  { const Guardian ended = std::move(guardian); }
  end.join();
}

TEST_F(GuardianTest, AGuardianReplacesTheSocketOfAKilledOneAndNoOther) {
  const std::string path = At("guardian.sock");
  {
    const Listener killed(path);
    EXPECT_TRUE(killed.Answers());
  }
  EXPECT_CODE(Guardian::Start(path), "ECONNREFUSED");
  Listener listener(path);
  EXPECT_TRUE(listener.Answers());
  Listener second(path);
  EXPECT_EQ(WEXITSTATUS(second.End(0)), 1);
  EXPECT_TRUE(listener.Answers());
  EXPECT_EQ(listener.End(SIGTERM), 0);
  EXPECT_CODE(Guardian::Start(path), "ENOENT");
  MakeFile(path, 1);
  Listener third(path);
  EXPECT_EQ(WEXITSTATUS(third.End(0)), 1);
  EXPECT_EQ(StateOf(path).st_size, 1);
}

// A connection to a guardian that listens, which sends anything.
class Client {
 public:
  explicit Client(const std::string& path)
      : fd_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    struct sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    const auto* const generic = reinterpret_cast<const struct sockaddr*>(&address);
    EXPECT_EQ(connect(fd_.get(), generic, sizeof(address)), 0);
  }
  // Ends the guardian, whatever it holds.
  ~Client() { shutdown(fd_.get(), SHUT_RDWR); }

  int get() const { return fd_.get(); }

  // Returns the error in the answer; -1: the guardian has ended the connection.
  int Ask(guardian::Order order, const std::vector<int>& descriptors,
          size_t extra_bytes = 0) const {
    struct {
      guardian::Request request;
      char extra[64];
    } bytes = {{order, 0}, {}};
    struct iovec data = {&bytes, sizeof(guardian::Request) + extra_bytes};
    alignas(struct cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
    struct msghdr message = {};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    if (!descriptors.empty()) {
      const size_t size = descriptors.size() * sizeof(int);
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(size);
      struct cmsghdr* const header = CMSG_FIRSTHDR(&message);
      *header = {CMSG_LEN(size), SOL_SOCKET, SCM_RIGHTS};
      std::memcpy(CMSG_DATA(header), descriptors.data(), size);
    }
    EXPECT_NE(sendmsg(fd_.get(), &message, MSG_NOSIGNAL), -1);
    guardian::Reply reply = {};
    if (recv(fd_.get(), &reply, sizeof(reply), 0) != ssize_t{sizeof(reply)}) return -1;
    return reply.error;
  }

 private:
  const UniqueFd fd_;
};

TEST_F(GuardianTest, AGuardianAnswersAnOrderThatItDoesNotKnow) {
  const Listener listener(At("guardian.sock"));
  ASSERT_TRUE(listener.Answers());
  const Client client(At("guardian.sock"));
  for (const uint32_t order : {99u, 0u}) {
    EXPECT_EQ(client.Ask(static_cast<guardian::Order>(order), {}), ENOSYS);
  }
}

TEST_F(GuardianTest, H19AGuardianKeepsNoDescriptorOfAMessageWithSeveral) {
  const Listener listener(At("guardian.sock"));
  ASSERT_TRUE(listener.Answers());
  const Client client(At("guardian.sock"));
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd read_end(ends[0]);
  {
    const UniqueFd write_end(ends[1]);
    for (const size_t count : {2, 3, 8}) {
      const std::vector<int> several(count, write_end.get());
      EXPECT_EQ(client.Ask(guardian::Order::kAdopt, several), EBADF);
    }
  }
  struct pollfd closed = {read_end.get(), 0, 0};
  EXPECT_EQ(poll(&closed, 1, kGiveUpMs), 1) << "the guardian has the other end";
}

TEST_F(GuardianTest, H19AGuardianTakesNoLongerMessageForARequest) {
  const Listener listener(At("guardian.sock"));
  ASSERT_TRUE(listener.Answers());
  for (const size_t extra : {1, 64}) {
    const Client client(At("guardian.sock"));
    EXPECT_EQ(client.Ask(guardian::Order::kLimit, {}, extra), -1);
  }
}

TEST_F(GuardianTest, H19AGuardianAdoptsNothingThatKeepsItFromEnding) {
  const Listener listener(At("guardian.sock"));
  ASSERT_TRUE(listener.Answers());
  const Client client(At("guardian.sock"));
  EXPECT_EQ(client.Ask(guardian::Order::kAdopt, {client.get()}), EBADF);
  const UniqueFd node = Open("/dev/null", O_RDWR);
  EXPECT_EQ(client.Ask(guardian::Order::kAdopt, {node.get()}), EBADF);
}

TEST_F(GuardianTest, NoMountPointIsGivenToAListenerOfAnotherUser) {
  const std::string path = At("guardian.sock");
  const UniqueFd listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  struct sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.copy(address.sun_path, sizeof(address.sun_path)), sizeof(address.sun_path));
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<struct sockaddr*>(&address), sizeof(address)), 0);
  // The kernel names the user of whoever calls listen(2).
  const pid_t pid = fork();
  if (pid == 0) _exit(setuid(65534) == 0 && listen(listener.get(), 1) == 0 ? 0 : 1);
  int status = -1;
  waitpid(pid, &status, 0);
  ASSERT_EQ(status, 0);
  EXPECT_CODE(Guardian::Start(path), "EPERM");
}

}  // namespace
}  // namespace blockdelta::test
