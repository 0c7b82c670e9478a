#include "native/thin/keep_base.h"

#include <cerrno>
#include <cstdio>
#include <utility>

#include "native/base/posix.h"
#include "native/thin/kept_base_writer.h"

namespace blockdelta {
namespace {

// Calls `take(begin, end)` for each range of mapped blocks, neighbours joined over reads too.
template <typename Take>
Status ForEachRange(ThinScan* scan, KeyRange blocks, const std::string& path, const Take& take) {
  KeyRange open = {0, 0};
  DeltaWalk* const walk = scan->walk();
  Status status = walk->Seek(blocks);
  while (status.ok() && !walk->done()) {
    Result<Span<const DeltaRun>> runs = walk->Read();
    if (!runs.ok()) return runs.TakeStatus();
    for (const DeltaRun& run : *runs) {
      if (run.kind == DeltaKind::kDifferent) {
        return Status::Errno(EINVAL, "keep", path,
                             "block " + std::to_string(run.begin) +
                                 " is as young as the snapshot: it was written to");
      }
      if (run.begin != open.high && open.low < open.high) status = take(open.low, open.high);
      if (run.begin != open.high) open.low = run.begin;
      open.high = run.end();
      if (!status.ok()) return status;
    }
  }
  if (status.ok() && open.low < open.high) status = take(open.low, open.high);
  return status;
}

Status CountRanges(ThinScan* scan, const KeepBaseRequest& request, KeptBaseInfo* info) {
  Status status = ForEachRange(scan, {0, info->size_blocks}, request.metadata,
                               [&](uint64_t low, uint64_t high) {
                                 info->ranges++;
                                 info->mapped_blocks += high - low;
                                 return Status();
                               });
  if (!status.ok()) return status;
  KeptBaseInfo bitmap = *info;
  bitmap.form = KeptForm::kBitmap;
  if (kept_format::BodyPages(bitmap) < kept_format::BodyPages(*info)) *info = bitmap;
  return Status();
}

// The tree is walked twice: only then is it known which form is smaller, and memory stays bounded.
Status Write(ThinScan* scan, const KeepBaseRequest& request, const KeptBaseInfo& info) {
  Result<KeptBaseWriter> writer = KeptBaseWriter::Create(request.temporary_path, info);
  if (!writer.ok()) return writer.TakeStatus();
  Status status = ForEachRange(scan, {0, info.size_blocks}, request.metadata,
                               [&](uint64_t low, uint64_t high) { return writer->Add(low, high); });
  if (status.ok()) status = writer->Finish();
  return status;
}

Result<KeptBaseFile> Tell(const std::string& path) {
  Result<std::unique_ptr<KeptBase>> kept = KeptBase::Open(path);
  if (!kept.ok()) return kept.TakeStatus();
  Status status = (*kept)->Verify();
  if (!status.ok()) return status;
  return KeptBaseFile{(*kept)->file_bytes(), (*kept)->info()};
}

Status Publish(const KeepBaseRequest& request) {
  if (renameat2(AT_FDCWD, request.temporary_path.c_str(), AT_FDCWD, request.path.c_str(),
                RENAME_NOREPLACE) == -1) {
    return Status::Errno(errno, "renameat2", request.path);
  }
  return SyncDirectoryOf(request.path);
}

Result<KeptBaseInfo> WriteTemporary(const KeepBaseRequest& request) {
  ThinScanRequest scan_request;
  scan_request.metadata = request.metadata;
  scan_request.superblock = request.superblock;
  scan_request.target = request.device;
  scan_request.mark_young = true;
  Result<std::unique_ptr<ThinScan>> scan = ThinScan::Open(scan_request);
  if (!scan.ok()) return scan.TakeStatus();
  KeptBaseInfo info;
  info.creation_time = (*scan)->creation_time();
  info.data_block_bytes = (*scan)->data_block_bytes();
  info.size_blocks = request.size_bytes / info.data_block_bytes +
                     (request.size_bytes % info.data_block_bytes != 0 ? 1 : 0);
  Status status = CountRanges(scan->get(), request, &info);
  if (status.ok()) status = Write(scan->get(), request, info);
  status = (*scan)->Confirm(std::move(status));
  if (!status.ok()) return status;
  return info;
}

}  // namespace

Result<KeptBaseFile> KeepBase(const KeepBaseRequest& request) {
  Result<KeptBaseFile> there = Tell(request.path);
  if (!there.status().IsErrno(ENOENT)) return there;
  Result<KeptBaseInfo> info = WriteTemporary(request);
  Status status = info.ok() ? Publish(request) : info.TakeStatus();
  if (!status.ok()) {
    unlink(request.temporary_path.c_str());
    return status;
  }
  return Tell(request.path);
}

}  // namespace blockdelta
