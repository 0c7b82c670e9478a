#include "native/scan/change_list_union.h"

#include <algorithm>
#include <utility>

#include "native/scan/change_list_writer.h"

namespace blockdelta {
namespace {

// Pages that all cursors of a union hold together.
constexpr size_t kPagesInMemory = 256;
constexpr size_t kMaxPagesPerRead = 16;

// The ranges of several lists in the order of their starts: a heap of cursors, the one with the
// lowest start on top.
class MergedRanges {
 public:
  explicit MergedRanges(const std::vector<ChangeListFile>& files) {
    const size_t pages = std::clamp<size_t>(kPagesInMemory / files.size(), 1, kMaxPagesPerRead);
    for (const ChangeListFile& file : files) cursors_.emplace_back(&file, pages);
  }

  Status Seek(uint64_t offset) {
    heap_.clear();
    for (ChangeListCursor& cursor : cursors_) {
      RETURN_IF_ERROR(cursor.Seek(offset));
      if (!cursor.at_end()) heap_.push_back({cursor.entry().start, &cursor});
    }
    std::make_heap(heap_.begin(), heap_.end(), StartsLater);
    return Status();
  }

  bool at_end() const { return heap_.empty(); }
  // REQUIRES: !at_end().
  const ChangeListEntry& range() const { return heap_.front().cursor->entry(); }

  Status Next() {
    Top* const top = &heap_.front();
    RETURN_IF_ERROR(top->cursor->Next());
    if (top->cursor->at_end()) {
      std::pop_heap(heap_.begin(), heap_.end(), StartsLater);
      heap_.pop_back();
    } else {
      top->start = top->cursor->entry().start;
      SiftDown();
    }
    return Status();
  }

 private:
  // A cursor and the start of its entry.
  struct Top {
    uint64_t start;
    ChangeListCursor* cursor;
  };

  static bool StartsLater(const Top& left, const Top& right) { return left.start > right.start; }

  // Restores the heap after its first element has grown, with half the comparisons of
  // std::pop_heap() and std::push_heap().
  void SiftDown() {
    const Top moved = heap_.front();
    size_t at = 0;
    for (size_t child = 1; child < heap_.size(); child = 2 * at + 1) {
      if (child + 1 < heap_.size() && heap_[child + 1].start < heap_[child].start) child++;
      if (heap_[child].start >= moved.start) break;
      heap_[at] = heap_[child];
      at = child;
    }
    heap_[at] = moved;
  }

  std::vector<ChangeListCursor> cursors_;
  std::vector<Top> heap_;
};

// Checks that a snapshot's file, if it exists, is the one that the list names.
Status CheckFile(const ListedSnapshot& listed, std::optional<SnapshotIdentity> file,
                 const std::string& list_path) {
  if (!file.has_value()) return Status();
  Result<SnapshotFile> opened = SnapshotFile::Open(std::move(*file));
  RETURN_IF_ERROR(opened);
  RETURN_IF_ERROR(opened->CheckFrozen());
  Result<FileVersion> version = VersionOf(opened->fd(), opened->path());
  RETURN_IF_ERROR(version);
  if (*version == listed.file) return Status();
  return change_list::Invalid(list_path, opened->path() + " is not the file that it was made from");
}

// Checks that the lists are of that kind and that each starts where the previous one ends.
Status CheckSteps(const std::vector<ChangeListFile>& files, ChangeListKind kind) {
  for (const ChangeListFile& file : files) {
    if (file.head().kind != kind) {
      return change_list::Invalid(file.path(), "it is a list of another kind");
    }
  }
  if (kind != ChangeListKind::kDelta && files.size() != 1) {
    return change_list::Invalid(files[1].path(), "allocated ranges need one list");
  }
  for (const ChangeListFile& file : files) {
    // A list says nothing about the bytes beyond the end of its target.
    if (file.head().base.file.size_bytes <= file.head().target.file.size_bytes) continue;
    return change_list::Invalid(file.path(), "its target is smaller than its base");
  }
  for (size_t i = 1; i < files.size(); i++) {
    if (files[i].head().base == files[i - 1].head().target) continue;
    const std::string& before = files[i - 1].path();
    return change_list::Invalid(
        files[i].path(),
        "it does not continue where " + before.substr(before.rfind('/') + 1) + " ends");
  }
  return Status();
}

// A thin device is the one that a list names if it was created at the same time of the pool.
Status CheckTime(const ListedSnapshot& listed, std::optional<uint32_t> time,
                 const std::string& list_path) {
  if (!time.has_value() || listed.file.generation == *time) return Status();
  return change_list::Invalid(list_path, "it is of a snapshot of the pool's time " +
                                             std::to_string(listed.file.generation) + ", not " +
                                             std::to_string(*time));
}

// Checks that the lists are of snapshots of the wanted kind, and of the request's thin devices.
Status CheckListed(const std::vector<ChangeListFile>& files, const ChangeListRequest& request) {
  const ListedKind kind = request.thin.has_value() ? ListedKind::kThinDevice : ListedKind::kFile;
  for (const ChangeListFile& file : files) {
    if (file.head().target.kind == kind) continue;
    return change_list::Invalid(file.path(), "it is of snapshots of another kind of pool");
  }
  if (!request.thin.has_value()) return Status();
  RETURN_IF_ERROR(CheckTime(files.back().head().target, request.thin->target, files.back().path()));
  return CheckTime(files.front().head().base, request.thin->base, files.front().path());
}

Status CheckChain(const std::vector<ChangeListFile>& files, const ChangeListRequest& request) {
  const ChangeListHead& first = files.front().head();
  const ChangeListHead& last = files.back().head();
  const bool is_delta = !request.base_id.empty();
  RETURN_IF_ERROR(
      CheckSteps(files, is_delta ? ChangeListKind::kDelta : ChangeListKind::kAllocated));
  if (is_delta && first.base.id != request.base_id) {
    return change_list::Invalid(files.front().path(), "it starts from snapshot " + first.base.id +
                                                          ", not " + request.base_id);
  }
  if (last.target.id != request.target_id) {
    return change_list::Invalid(
        files.back().path(), "it is of snapshot " + last.target.id + ", not " + request.target_id);
  }
  if (last.target.file.size_bytes != request.size_bytes) {
    return change_list::Invalid(files.back().path(), "it is of a snapshot of another size");
  }
  return CheckListed(files, request);
}

Result<std::vector<ChangeListFile>> OpenLists(const std::vector<std::string>& paths) {
  std::vector<ChangeListFile> files;
  for (const std::string& path : paths) {
    Result<ChangeListFile> file = ChangeListFile::Open(path);
    if (file.status().IsErrno(ENOENT)) return change_list::Invalid(path, "it is gone");
    RETURN_IF_ERROR(file);
    files.push_back(std::move(*file));
  }
  return files;
}

// Opens the lists of a request and checks that they can answer it.
Result<std::vector<ChangeListFile>> OpenChain(ChangeListRequest request) {
  Result<std::vector<ChangeListFile>> files = OpenLists(request.paths);
  RETURN_IF_ERROR(files);
  if (files->empty()) return Status::Errno(EINVAL, "OpenChain", request.target_id);
  Status status = CheckChain(*files, request);
  if (status.ok()) {
    status =
        CheckFile(files->back().head().target, std::move(request.target), files->back().path());
  }
  if (status.ok()) {
    status = CheckFile(files->front().head().base, std::move(request.base), files->front().path());
  }
  if (!status.ok()) return status;
  return files;
}

// Checks that the list has the entries and bytes that its head says.
Status VerifyEntries(const ChangeListFile& file) {
  ChangeListCursor cursor(&file, kMaxPagesPerRead);
  uint64_t entries = 0;
  uint64_t bytes = 0;
  Status status = cursor.Seek(0);
  for (; status.ok() && !cursor.at_end(); status = cursor.Next()) {
    entries++;
    bytes += cursor.entry().end - cursor.entry().start;
  }
  if (!status.ok()) return status;
  if (entries == file.head().entries && bytes == file.head().entry_bytes) return Status();
  return change_list::Invalid(
      file.path(), "it has " + std::to_string(entries) + " entries of " + std::to_string(bytes) +
                       " bytes, and its head says " + std::to_string(file.head().entries) + " of " +
                       std::to_string(file.head().entry_bytes));
}

// Adds the ranges of all lists, joined where they overlap or touch.
Status AddUnion(const std::vector<ChangeListFile>& files, ChangeListWriter* writer) {
  MergedRanges ranges(files);
  Status status = ranges.Seek(0);
  ChangeListEntry joined;
  while (status.ok() && !ranges.at_end()) {
    const ChangeListEntry& range = ranges.range();
    if (range.start <= joined.end && joined.start < joined.end) {
      joined.end = std::max(joined.end, range.end);
    } else {
      if (joined.start < joined.end) status = writer->Add(joined);
      if (!status.ok()) return status;
      joined = range;
    }
    status = ranges.Next();
  }
  if (status.ok() && joined.start < joined.end) status = writer->Add(joined);
  return status;
}

}  // namespace

Result<FillOutcome> FillFromLists(ChangeListRequest request, const FillLimits& limits,
                                  Span<uint8_t> buffer) {
  const uint64_t size_bytes = request.size_bytes;
  Result<std::vector<ChangeListFile>> files = OpenChain(std::move(request));
  RETURN_IF_ERROR(files);
  return FillFromListFiles(*files, size_bytes, limits, buffer);
}

Status VerifyChangeLists(ChangeListRequest request) {
  Result<std::vector<ChangeListFile>> files = OpenChain(std::move(request));
  RETURN_IF_ERROR(files);
  for (const ChangeListFile& file : *files) RETURN_IF_ERROR(VerifyEntries(file));
  return Status();
}

Result<FillOutcome> FillFromListFiles(const std::vector<ChangeListFile>& files, uint64_t size_bytes,
                                      const FillLimits& limits, Span<uint8_t> buffer) {
  MessageWriter writer(buffer, size_bytes, limits.max_entries_per_message);
  MergedRanges ranges(files);
  RETURN_IF_ERROR(ranges.Seek(limits.offset));
  // The range that is not written yet, because the next one may continue it.
  uint64_t start = limits.range_start;
  uint64_t end = limits.offset;
  uint64_t taken = 0;
  const auto write = [&] {
    if (start == end) return true;
    return writer.entries() < limits.max_entries && writer.Add(start, end - start);
  };
  bool is_full = false;
  while (!ranges.at_end() && taken < limits.max_extents) {
    const uint64_t from = std::max(ranges.range().start, limits.offset);
    const uint64_t to = std::min(ranges.range().end, size_bytes);
    if (from >= size_bytes) break;
    if (from > end) {
      is_full = !write();
      if (is_full) break;
      start = from;
      end = to;
    } else {
      end = std::max(end, to);
    }
    taken++;
    RETURN_IF_ERROR(ranges.Next());
  }
  const bool is_complete =
      !is_full && (ranges.at_end() || ranges.range().start >= size_bytes) && write();
  FillOutcome outcome;
  outcome.done = is_complete;
  if (outcome.done && limits.send_empty && writer.messages() == 0) writer.AddEmptyMessage();
  writer.Finish();
  outcome.messages = writer.messages();
  outcome.bytes = writer.bytes();
  outcome.entries = writer.entries();
  outcome.entry_bytes = writer.entry_bytes();
  outcome.next_offset = is_complete ? size_bytes : end;
  outcome.next_range_start = is_complete ? size_bytes : start;
  outcome.extents = taken;
  return outcome;
}

Result<uint64_t> JoinChangeLists(const JoinChangeListsRequest& request) {
  Result<std::vector<ChangeListFile>> files = OpenLists({request.older, request.newer});
  RETURN_IF_ERROR(files);
  Status status = CheckSteps(*files, ChangeListKind::kDelta);
  if (!status.ok()) return status;
  Result<ChangeListWriter> writer =
      ChangeListWriter::Create(request.temporary, ChangeListKind::kDelta);
  RETURN_IF_ERROR(writer);
  status = AddUnion(*files, &*writer);
  if (status.ok()) status = writer->Flush();
  if (status.ok()) {
    status =
        writer->Publish(files->back().head().target, files->front().head().base, request.final);
  }
  if (!status.ok()) return status;
  return writer->progress().entries;
}

}  // namespace blockdelta
