#include "native/thin/open_source.h"

#include <utility>

#include "native/base/posix.h"
#include "native/thin/direct_source.h"
#include "native/thin/file_source.h"

namespace blockdelta {
namespace {

template <typename Source>
Result<std::unique_ptr<BlockSource>> Open(const std::string& path) {
  Result<Source> source = Source::Open(path);
  if (!source.ok()) return source.TakeStatus();
  return std::unique_ptr<BlockSource>(std::make_unique<Source>(std::move(*source)));
}

}  // namespace

Result<std::unique_ptr<BlockSource>> OpenBlockSource(const std::string& path) {
  struct stat state;
  if (stat(path.c_str(), &state) == -1) return Status::Errno(errno, "stat", path);
  if (S_ISREG(state.st_mode)) return Open<FileSource>(path);
  if (S_ISBLK(state.st_mode)) return Open<DirectSource>(path);
  return Status::Errno(EINVAL, "open", path, "neither a block device nor a regular file");
}

}  // namespace blockdelta
