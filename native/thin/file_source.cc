#include "native/thin/file_source.h"

#include <utility>

#include "native/base/posix.h"
#include "native/thin/run_reader.h"

namespace blockdelta {

FileSource::FileSource(UniqueFd fd, std::string path, uint64_t block_count)
    : fd_(std::move(fd)), path_(std::move(path)), block_count_(block_count) {}

Result<FileSource> FileSource::Open(const std::string& path) {
  Result<UniqueFd> fd = OpenPath(path, O_RDONLY);
  if (!fd.ok()) return fd.TakeStatus();
  Result<struct stat> state = StatFd(fd->get(), path);
  if (!state.ok()) return state.TakeStatus();
  if (!S_ISREG(state->st_mode)) return Status::Errno(EINVAL, "open", path, "not a regular file");
  return FileSource(std::move(*fd), path,
                    static_cast<uint64_t>(state->st_size) / kMetadataBlockBytes);
}

size_t FileSource::batch_blocks() const { return kMaxRunBlocks; }

Status FileSource::Read(Span<const uint64_t> numbers, uint8_t* out) {
  return ReadBlocks({fd_.get(), path_, block_count_}, numbers, 1, out);
}

}  // namespace blockdelta
