#include "test/native/pool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "native/device/files.h"
#include "native/device/freeze.h"
#include "native/device/loop_attach.h"
#include "test/native/status_assertions.h"

namespace blockdelta::test {
namespace {

// mkfs.xfs makes nothing below 300 MiB.
constexpr char kImageSize[] = "400M";

std::string MakeTempDirectory() {
  const char* parent = std::getenv("TMPDIR");
  std::string path = std::string(parent != nullptr ? parent : "/tmp") + "/blockdelta-native-XXXXXX";
  return mkdtemp(path.data()) != nullptr ? path : std::string();
}

}  // namespace

bool RunCommand(const std::string& command) {
  return std::system(("( " + command + " ) >/dev/null 2>&1 </dev/null").c_str()) == 0;
}

TempDirectory::TempDirectory() : path_(MakeTempDirectory()) { EXPECT_FALSE(path_.empty()); }

TempDirectory::~TempDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::unique_ptr<Pool> Pool::Make(const std::string& kind, const std::string& mount_options,
                                 const std::string& mkfs_options) {
  if (geteuid() != 0) {
    Skip("needs root");
    return nullptr;
  }
  if (!RunCommand("command -v mkfs." + kind)) {
    Skip("mkfs." + kind + " is not installed");
    return nullptr;
  }
  std::unique_ptr<Pool> pool(new Pool());
  const std::string image = pool->directory_.At("image");
  const std::string options = "-o loop" + (mount_options.empty() ? "" : "," + mount_options);
  const bool made =
      RunCommand("truncate -s " + std::string(kImageSize) + " " + image + " && mkfs." + kind +
                 " -q " + mkfs_options + " " + image + " && mkdir " + pool->mount_point() +
                 " && mount " + options + " " + image + " " + pool->mount_point());
  if (made) return pool;
  Skip(kind + " cannot be mounted on a loop device here");
  return nullptr;
}

Pool::~Pool() { RunCommand("umount " + mount_point() + " || umount -l " + mount_point()); }

bool DetachWhenFree(const std::string& path) {
  const uint64_t deadline = ClockNs(CLOCK_MONOTONIC) + 30'000'000'000;
  for (;;) {
    Result<bool> detached = DetachLoop(path);
    if (detached.ok() || ClockNs(CLOCK_MONOTONIC) >= deadline) {
      EXPECT_OK(detached) << path;
      return detached.ok() && *detached;
    }
    SleepMs(20);
  }
}

bool WithMounted(const std::string& file, const std::string& options,
                 const std::function<void(const std::string& mount)>& use) {
  const TempDirectory directory;
  const std::string mount = directory.At("mount");
  const bool mounted =
      RunCommand("mkdir " + mount + " && mount -o ro,loop," + options + " " + file + " " + mount);
  EXPECT_TRUE(mounted) << file;
  if (!mounted) return false;
  use(mount);
  EXPECT_TRUE(RunCommand("umount " + mount));
  return true;
}

Volume::Volume(const Pool& pool, const std::string& name, const std::string& kind,
               uint64_t size_bytes)
    : pool_(pool.mount_point()), path_(pool.At(name)) {
  const Status created = CreateSparseFile({path_ + ".tmp", path_}, size_bytes);
  Result<AttachedLoop> attached = AttachLoop(path_, false, "");
  GTEST_CHECK_(created.ok() && attached.ok()) << path_;
  loop_ = attached->device.path;
  if (kind.empty()) return;
  mount_ = directory_.At("mount");
  GTEST_CHECK_(RunCommand("mkfs." + kind + " -q " + loop_ + " && mkdir " + mount_ + " && mount " +
                          loop_ + " " + mount_))
      << kind << " on " << loop_;
}

Volume::~Volume() {
  if (!mount_.empty()) RunCommand("umount " + mount_ + " || umount -l " + mount_);
  DetachWhenFree(path_);
}

NewSnapshotFile Volume::Member(const std::string& snapshot) const {
  NewSnapshotFile member;
  member.source_path = path_;
  member.names = {pool_ + "/" + snapshot + ".tmp", pool_ + "/" + snapshot};
  member.loop_path = loop_;
  if (!mount_.empty()) member.freeze_path = mount_;
  return member;
}

bool Volume::Unmount() {
  const bool unmounted = RunCommand("umount " + mount_);
  if (unmounted) mount_.clear();
  return unmounted;
}

bool Volume::IsThawed() const {
  Result<bool> thawed = ThawPath(mount_);
  EXPECT_OK(thawed);
  return thawed.ok() && !*thawed;
}

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

void WriteBytes(const std::string& path, uint64_t offset, const std::vector<uint8_t>& bytes) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const ssize_t written = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
  EXPECT_EQ(written, static_cast<ssize_t>(bytes.size()));
  close(fd);
}

std::vector<uint8_t> ReadBytes(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat state = {};
  EXPECT_TRUE(fd >= 0 && fstat(fd, &state) == 0) << path;
  if (fd < 0) return {};
  std::vector<uint8_t> bytes(static_cast<size_t>(state.st_size));
  size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got =
        pread(fd, bytes.data() + filled, bytes.size() - filled, static_cast<off_t>(filled));
    EXPECT_GT(got, 0) << path;
    if (got <= 0) break;
    filled += static_cast<size_t>(got);
  }
  close(fd);
  return bytes;
}

Status SetImmutable(const std::string& path, bool immutable) {
  Result<UniqueFd> fd = OpenPath(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!fd.ok()) return fd.TakeStatus();
  return SetImmutableFd(fd->get(), immutable, path);
}

SnapshotIdentity IdentityOf(const std::string& path) {
  struct stat state = {};
  EXPECT_EQ(stat(path.c_str(), &state), 0);
  return {path, state.st_dev, state.st_ino, static_cast<uint64_t>(state.st_size)};
}

}  // namespace blockdelta::test
