#include "native/device/mount_point.h"

#include <sys/sysmacros.h>

#include <cstdint>

#include "native/base/posix.h"

namespace blockdelta {
namespace {

constexpr char kMountInfo[] = "/proc/self/mountinfo";
// A node with thousands of pods has a few MiB of mountinfo.
constexpr size_t kMaxMountInfo = 64 * 1024 * 1024;

// Removes the first word from the line and returns it.
std::string_view TakeWord(std::string_view* line) {
  const size_t end = line->find(' ');
  const std::string_view word = line->substr(0, end);
  line->remove_prefix(end == std::string_view::npos ? line->size() : end + 1);
  return word;
}

bool IsOctal(char digit) { return digit >= '0' && digit <= '7'; }

// The kernel writes blanks, tabs, newlines and backslashes as a backslash and three octal digits.
std::string Unescape(std::string_view word) {
  std::string text;
  for (size_t i = 0; i < word.size(); i++) {
    const bool is_escape = word[i] == '\\' && word.size() - i > 3 && IsOctal(word[i + 1]) &&
                           IsOctal(word[i + 2]) && IsOctal(word[i + 3]);
    if (!is_escape) {
      text += word[i];
      continue;
    }
    const int code = (word[i + 1] - '0') * 64 + (word[i + 2] - '0') * 8 + (word[i + 3] - '0');
    text += static_cast<char>(code & 0xff);
    i += 3;
  }
  return text;
}

// The device is checked after the open, because the path may lead elsewhere by now.
Status SyncFileSystemAt(const std::string& mount_point, dev_t device) {
  Result<UniqueFd> fd = OpenPath(mount_point, O_RDONLY | O_NONBLOCK);
  RETURN_IF_ERROR(fd);
  Result<struct stat> state = StatFd(fd->get(), mount_point);
  RETURN_IF_ERROR(state);
  if (state->st_dev != device) return Status();
  if (syncfs(fd->get()) == -1) return Status::Errno(errno, "syncfs", mount_point);
  return Status();
}

// Removes the first line from the text and returns it.
std::string_view TakeLine(std::string_view* text) {
  const std::string_view line = text->substr(0, text->find('\n'));
  text->remove_prefix(line.size() == text->size() ? line.size() : line.size() + 1);
  return line;
}

// Word number `index` of a line, from 0.
std::string_view WordOf(std::string_view line, int index) {
  for (int word = 0; word < index; word++) TakeWord(&line);
  return TakeWord(&line);
}

}  // namespace

Result<std::string> ReadMountInfo() {
  Result<UniqueFd> fd = OpenPath(kMountInfo, O_RDONLY);
  RETURN_IF_ERROR(fd);
  std::string text;
  for (char buffer[65536]; text.size() < kMaxMountInfo;) {
    const ssize_t length = RetryInterrupted([&] { return read(fd->get(), buffer, sizeof buffer); });
    if (length == -1) return Status::Errno(errno, "read", kMountInfo);
    if (length == 0) break;
    text.append(buffer, static_cast<size_t>(length));
  }
  return text;
}

bool IsTopLayer(std::string_view mountinfo, uint64_t mount_id) {
  constexpr int kParent = 1;
  constexpr int kMountPoint = 4;
  const std::string number = std::to_string(mount_id);
  std::optional<std::string_view> mount_point;
  for (std::string_view rest = mountinfo; !rest.empty();) {
    const std::string_view line = TakeLine(&rest);
    if (WordOf(line, 0) == number) mount_point = WordOf(line, kMountPoint);
  }
  if (!mount_point.has_value()) return false;
  for (std::string_view rest = mountinfo; !rest.empty();) {
    const std::string_view line = TakeLine(&rest);
    if (WordOf(line, kParent) == number && WordOf(line, kMountPoint) == *mount_point) return false;
  }
  return true;
}

std::optional<std::string> MountPointOf(std::string_view mountinfo, dev_t device) {
  const std::string number = std::to_string(major(device)) + ":" + std::to_string(minor(device));
  while (!mountinfo.empty()) {
    std::string_view line = mountinfo.substr(0, mountinfo.find('\n'));
    mountinfo.remove_prefix(line.size() == mountinfo.size() ? line.size() : line.size() + 1);
    TakeWord(&line);  // Mount id.
    TakeWord(&line);  // Parent.
    if (TakeWord(&line) != number) continue;
    TakeWord(&line);  // Root within the file system.
    const std::string_view mount_point = TakeWord(&line);
    if (!mount_point.empty()) return Unescape(mount_point);
  }
  return std::nullopt;
}

Status WriteBack(const std::string& device_path, dev_t device) {
  Result<std::string> mountinfo = ReadMountInfo();
  RETURN_IF_ERROR(mountinfo);
  const std::optional<std::string> mount_point = MountPointOf(*mountinfo, device);
  if (mount_point.has_value()) return SyncFileSystemAt(*mount_point, device);
  Result<UniqueFd> fd = OpenPath(device_path, O_RDONLY);
  RETURN_IF_ERROR(fd);
  return SyncFd(fd->get(), device_path);
}

}  // namespace blockdelta
