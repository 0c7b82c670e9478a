// The guardian: file systems are thawed, whichever process is killed while they are frozen.
#include "native/device/guardian.h"

#include <gtest/gtest.h>
#include <linux/fs.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>

#include "native/device/freeze.h"
#include "test/native/pool.h"
#include "test/native/random_seed.h"
#include "test/native/status_assertions.h"
#include "test/native/volume.h"

namespace blockdelta {
namespace {

constexpr uint64_t kSizes[] = {64 << 20, 300 << 20, 128 << 20};
constexpr const char* kKinds[] = {"ext4", "xfs", "btrfs"};
// For a test that would wait for ever otherwise.
constexpr int kGiveUpMs = 60'000;

Result<Freeze> Hold(Guardian* guardian, const std::string& mount_point) {
  Result<UniqueFd> mount = OpenPath(mount_point, O_RDONLY | O_DIRECTORY);
  if (!mount.ok()) return mount.TakeStatus();
  return Freeze::Begin(guardian, std::move(*mount), mount_point);
}

// Starts a process that freezes the file systems and waits to be killed, when they are frozen.
pid_t StartHolder(const std::vector<std::string>& mount_points) {
  int ends[2];
  const bool piped = pipe2(ends, O_CLOEXEC) == 0;
  EXPECT_TRUE(piped);
  if (!piped) return -1;
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    Result<Guardian> guardian = Guardian::Start();
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
  Result<UniqueFd> mount = OpenPath(mount_point, O_RDONLY | O_DIRECTORY);
  const bool is_frozen = mount.ok() && ioctl(mount->get(), FIFREEZE, 0) == -1 && errno == EBUSY;
  if (!is_frozen) static_cast<void>(ThawPath(mount_point));
  return is_frozen;
}

TEST(GuardianTest, H19FileSystemsStayWritableWhenTheirPluginIsKilledWhileTheyAreFrozen) {
  const std::unique_ptr<test::Pool> pool = test::Pool::Make("xfs");
  if (pool == nullptr) return;
  std::vector<std::unique_ptr<test::Volume>> volumes;
  std::vector<std::string> mount_points;
  for (size_t i = 0; i < 3; i++) {
    volumes.push_back(test::Volume::Make(*pool, kKinds[i], kKinds[i], kSizes[i]));
    if (volumes.back() == nullptr) return;
    mount_points.push_back(volumes.back()->mount_point());
  }
  for (int round = 0; round < (test::IsNightly() ? 200 : 20); round++) {
    const pid_t holder = StartHolder(mount_points);
    if (holder <= 0) return;
    for (const std::string& mount_point : mount_points) EXPECT_TRUE(IsFrozen(mount_point));
    kill(holder, SIGKILL);
    waitpid(holder, nullptr, 0);
    for (const std::string& mount_point : mount_points) EXPECT_TRUE(CanWrite(mount_point));
  }
}

TEST(GuardianTest, H19AFileSystemIsThawedWhenItsGuardianIsKilled) {
  const std::unique_ptr<test::Pool> pool = test::Pool::Make("xfs");
  if (pool == nullptr) return;
  const auto volume = test::Volume::Make(*pool, "volume", "ext4", kSizes[0]);
  if (volume == nullptr) return;
  Result<Guardian> guardian = Guardian::Start();
  ASSERT_OK(guardian);
  Result<Freeze> freeze = Hold(&*guardian, volume->mount_point());
  ASSERT_OK(freeze);
  kill(guardian->pid(), SIGKILL);
  EXPECT_OK(freeze->Thaw());
  EXPECT_TRUE(volume->IsThawed());
  EXPECT_CODE(Hold(&*guardian, volume->mount_point()), "ESTALE");
  EXPECT_TRUE(volume->IsThawed());
}

TEST(GuardianTest, AFileSystemThatAnotherHasThawedMeanwhileIsAFailure) {
  const std::unique_ptr<test::Pool> pool = test::Pool::Make("xfs");
  if (pool == nullptr) return;
  const auto volume = test::Volume::Make(*pool, "volume", "ext4", kSizes[0]);
  if (volume == nullptr) return;
  Result<Guardian> guardian = Guardian::Start();
  ASSERT_OK(guardian);
  Result<Freeze> freeze = Hold(&*guardian, volume->mount_point());
  ASSERT_OK(freeze);
  EXPECT_OK(ThawPath(volume->mount_point()));
  EXPECT_CODE(freeze->Thaw(), "EINVAL");
}

TEST(GuardianTest, H19AGuardianEndsWithItsParentThawsWhatIsLeftAndLeavesNoProcess) {
  const std::unique_ptr<test::Pool> pool = test::Pool::Make("xfs");
  if (pool == nullptr) return;
  const auto volume = test::Volume::Make(*pool, "volume", "ext4", kSizes[0]);
  if (volume == nullptr) return;
  pid_t pid = 0;
  {
    Result<Guardian> guardian = Guardian::Start();
    ASSERT_OK(guardian);
    pid = guardian->pid();
    EXPECT_EQ(getsid(pid), pid);
    Result<UniqueFd> mount = OpenPath(volume->mount_point(), O_RDONLY | O_DIRECTORY);
    EXPECT_OK(guardian->Freeze(mount->get(), volume->mount_point()));
    EXPECT_CODE(guardian->Freeze(mount->get(), volume->mount_point()), "EBUSY");
    EXPECT_CODE(guardian->Thaw({7, 0}, mount->get(), volume->mount_point()), "EBADF");
  }
  EXPECT_TRUE(kill(pid, 0) == -1 && errno == ESRCH);
  EXPECT_TRUE(volume->IsThawed());
}

}  // namespace
}  // namespace blockdelta
