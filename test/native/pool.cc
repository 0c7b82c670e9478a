#include "test/native/pool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "native/device/files.h"
#include "native/device/freeze.h"
#include "native/device/loop_attach.h"
#include "test/native/status_assertions.h"

namespace blockdelta::test {
namespace {

// mkfs.xfs makes nothing below 300 MiB.
constexpr char kImageSize[] = "400M";
constexpr uint64_t kBlock = 4096;

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

Pool::Pool(const std::string& kind, const std::string& mount_options,
           const std::string& mkfs_options) {
  const std::string image = directory_.At("image");
  const std::string options = "-o loop" + (mount_options.empty() ? "" : "," + mount_options);
  GTEST_CHECK_(RunCommand("truncate -s " + std::string(kImageSize) + " " + image + " && mkfs." +
                          kind + " -q " + mkfs_options + " " + image + " && mkdir " +
                          mount_point() + " && mount " + options + " " + image + " " +
                          mount_point()))
      << kind << " cannot be mounted here: needs root, loop devices and mkfs." << kind;
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

void WithMounted(const std::string& file, const std::string& options,
                 const std::function<void(const std::string& mount)>& use) {
  const TempDirectory directory;
  const std::string mount = directory.At("mount");
  ASSERT_TRUE(
      RunCommand("mkdir " + mount + " && mount -o ro,loop," + options + " " + file + " " + mount))
      << file;
  use(mount);
  EXPECT_TRUE(RunCommand("umount " + mount));
}

Volume::Volume(const Pool& pool, const std::string& name, const std::string& kind,
               uint64_t size_bytes)
    : pool_(pool.mount_point()), path_(pool.At(name)) {
  Result<AttachedLoop> attached = AttachLoop(MakeFile(path_, size_bytes), false, "");
  GTEST_CHECK_(attached.ok()) << path_;
  loop_ = attached->device.path;
  // The number keeps what a test has set that was killed.
  std::ofstream(("/sys/block" + loop_.substr(4) + "/queue/iostats").c_str()) << '1';
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
  NewSnapshotFile member = {path_, Names(pool_ + "/" + snapshot), loop_, {}};
  if (!mount_.empty()) member.freeze_path = mount_;
  return member;
}

bool Volume::Unmount() {
  const bool unmounted = RunCommand("umount " + mount_);
  if (unmounted) mount_.clear();
  return unmounted;
}

bool Volume::IsThawed() const { return !ValueOf(ThawPath(mount_)); }

RandomWriter::RandomWriter(const std::string& path, uint64_t seed, bool only_writes)
    : path_(path),
      fd_(Open(path, O_RDWR)),
      blocks_(static_cast<uint64_t>(StateOf(path).st_size) / kBlock),
      only_writes_(only_writes),
      random_(seed) {}

void RandomWriter::Step() {
  constexpr int kModes[] = {FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, FALLOC_FL_ZERO_RANGE, 0};
  const uint64_t count = 1 + Below(8);
  const auto offset = static_cast<off_t>(Below(blocks_ - count + 1) * kBlock);
  const auto fill = static_cast<uint8_t>(Below(4) == 0 ? 0 : random_());
  const std::vector<uint8_t> bytes(count * kBlock, fill);
  const auto size = static_cast<off_t>(bytes.size());
  const uint64_t kind = Below(8);
  if (kind < std::size(kModes) && !only_writes_) {
    EXPECT_EQ(fallocate(fd_.get(), kModes[kind], offset, size), 0) << path_;
  } else if (kind == std::size(kModes)) {
    EXPECT_OK(SyncFd(fd_.get(), path_));
  } else {
    EXPECT_EQ(pwrite(fd_.get(), bytes.data(), bytes.size(), offset), size) << path_;
  }
}

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

struct stat StateOf(const std::string& path) {
  struct stat state = {};
  EXPECT_EQ(stat(path.c_str(), &state), 0) << path;
  return state;
}

UniqueFd Open(const std::string& path, int flags) { return ValueOf(OpenPath(path, flags, 0600)); }

NewFileNames Names(const std::string& path) { return {path + ".tmp", path}; }

std::string MakeFile(const std::string& path, uint64_t size_bytes) {
  EXPECT_OK(CreateSparseFile(Names(path), size_bytes));
  return path;
}

void WriteBytes(const std::string& path, uint64_t offset, const std::vector<uint8_t>& bytes) {
  const UniqueFd fd = Open(path, O_WRONLY | O_CREAT);
  EXPECT_EQ(pwrite(fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)),
            static_cast<ssize_t>(bytes.size()));
}

std::vector<uint8_t> ReadBytes(const std::string& path) {
  std::vector<uint8_t> bytes(static_cast<size_t>(StateOf(path).st_size));
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  EXPECT_TRUE(file.good()) << path;
  return bytes;
}

Status SetImmutable(const std::string& path, bool immutable) {
  const UniqueFd fd = Open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  return SetImmutableFd(fd.get(), immutable, path);
}

SnapshotIdentity IdentityOf(const std::string& path) {
  const struct stat state = StateOf(path);
  return {path, state.st_dev, state.st_ino, static_cast<uint64_t>(state.st_size)};
}

}  // namespace blockdelta::test
