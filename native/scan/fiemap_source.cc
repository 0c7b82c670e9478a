#include "native/scan/fiemap_source.h"

#include <linux/fs.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "native/base/posix.h"
#include "native/scan/extent.h"

namespace blockdelta {
namespace {

static_assert(sizeof(struct fiemap) == 32, "ABI of FS_IOC_FIEMAP");
static_assert(sizeof(struct fiemap_extent) == 56, "ABI of FS_IOC_FIEMAP");

constexpr size_t kRequestBytes =
    sizeof(struct fiemap) + kMaxBatchExtents * sizeof(struct fiemap_extent);
static_assert(kRequestBytes % sizeof(uint64_t) == 0, "request_ is counted in words");

}  // namespace

FiemapSource::FiemapSource(int fd, std::string path, uint64_t size_bytes)
    : fd_(fd),
      path_(std::move(path)),
      size_bytes_(size_bytes),
      request_(kRequestBytes / sizeof(uint64_t)) {
  batch_.reserve(kMaxBatchExtents);
}

void FiemapSource::Seek(uint64_t offset) {
  position_ = offset;
  previous_end_ = 0;
  at_end_ = offset >= size_bytes_;
}

Result<Span<const Extent>> FiemapSource::Read(size_t wanted) {
  batch_.clear();
  if (!at_end_) {
    RETURN_IF_ERROR(Map(std::min(wanted, kMaxBatchExtents)));
  }
  return Span<const Extent>(batch_.data(), batch_.size());
}

Status FiemapSource::Map(size_t wanted) {
  auto* request = reinterpret_cast<struct fiemap*>(request_.data());
  *request = {};
  request->fm_start = position_;
  request->fm_length = size_bytes_ - position_;
  // Without SYNC, even a frozen file's map may show addresses that dirty pages are about to leave.
  request->fm_flags = FIEMAP_FLAG_SYNC;
  request->fm_extent_count = static_cast<uint32_t>(wanted);
  Status status = Ioctl(fd_, FS_IOC_FIEMAP, request, "FS_IOC_FIEMAP", path_);
  if (status.IsErrno(EOPNOTSUPP) || status.IsErrno(ENOTTY)) {
    return Status::Scan(kScanUnsupported, path_, "the file system of ",
                        " has no extent maps (FIEMAP)");
  }
  if (!status.ok()) return status;
  if (request->fm_mapped_extents > wanted) {
    return Status::Scan(kScanMapInvalid, path_, "FIEMAP of ",
                        " returned more extents than requested");
  }
  if (request->fm_mapped_extents == 0) at_end_ = true;
  for (uint32_t i = 0; i < request->fm_mapped_extents && !at_end_; i++) {
    status = Take(request->fm_extents[i]);
    if (!status.ok()) return status;
  }
  return Status();
}

Status FiemapSource::Take(const struct fiemap_extent& from) {
  Extent extent = {from.fe_logical, from.fe_physical, from.fe_length, from.fe_flags};
  const MapCheck check = CheckExtent(previous_end_, size_bytes_, &extent);
  // An extent that ends before the requested position would be requested forever.
  if (check == MapCheck::kInvalid || (check == MapCheck::kTake && extent.end() <= position_)) {
    return Status::Scan(kScanMapInvalid, path_, "the extent map of ",
                        " is not in order at offset " + std::to_string(from.fe_logical));
  }
  if (check == MapCheck::kBeyond) {
    at_end_ = true;
    return Status();
  }
  batch_.push_back(extent);
  previous_end_ = extent.end();
  position_ = extent.end();
  at_end_ = (from.fe_flags & FIEMAP_EXTENT_LAST) != 0 || position_ >= size_bytes_;
  return Status();
}

}  // namespace blockdelta
