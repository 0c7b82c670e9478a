#include "native/device/take_snapshots.h"

#include <time.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "native/base/seal.h"
#include "native/device/copied_sources.h"
#include "native/device/pre_clone.h"
#include "native/device/source_volume.h"
#include "native/device/write_counters.h"

namespace blockdelta {
namespace {

constexpr mode_t kFrozenMode = 0400;
// Time limit for retries while raw devices are written to.
constexpr uint64_t kTimeoutNs = 2'000'000'000;
constexpr unsigned kMaxPauseMs = 50;
// A single busy device is cloned last in the second try, however long a try takes.
constexpr int kMinTries = 2;

// Snapshots of several volumes, from the opened sources to the clones under their temporary names.
class SnapshotGroup {
 public:
  static Result<SnapshotGroup> Open(const std::vector<NewSnapshotFile>& members, SnapshotAids aids);

  // Freezes, flushes, clones and thaws until all clones show one point in time.
  Result<TakenSnapshots> Clone();

  const std::vector<SourceVolume>& sources() const { return sources_; }
  std::vector<NewFile>& files() { return files_; }

 private:
  explicit SnapshotGroup(SnapshotAids aids)
      : copied_(std::make_unique<CopiedSources>(std::move(aids.copy_path))),
        guardian_socket_(std::move(aids.guardian_socket)) {}

  Status StartGuardian();
  // One try. Sets `outcome` if the clones are consistent; otherwise reorders `raw_` for the next
  // try.
  Status Try(std::optional<TakenSnapshots>* outcome);
  // Clones ahead of the freeze what it will stop the writers of.
  void PrepareClones();
  Result<std::vector<Freeze>> FreezeAll();
  Status FlushAhead() const;
  Status FlushAll() const;
  // Clones the raw devices in the order of `raw_`. Returns the positions in `raw_` of devices that
  // were, or may have been, written to between their own clone and the last one.
  Result<std::vector<size_t>> CloneRaw();
  // Clones, or copies together with their subvolume, all other volumes.
  Status CloneOthers();
  // Clones from the copy of the subvolume, and removes it.
  Status CloneCopied();
  Status CloneOne(size_t member);
  Status EmptyClones();

  std::vector<SourceVolume> sources_;
  std::vector<NewFile> files_;
  std::vector<std::unique_ptr<PreClone>> pre_clones_;  // One a member; null: it is not frozen.
  std::unique_ptr<CopiedSources> copied_;
  std::optional<std::string> guardian_socket_;
  std::optional<Guardian> guardian_;  // Present if a file system has to be frozen.
  std::vector<size_t> raw_;           // Members that are raw devices, in the order of cloning.
};

Result<SnapshotGroup> SnapshotGroup::Open(const std::vector<NewSnapshotFile>& members,
                                          SnapshotAids aids) {
  SnapshotGroup group(std::move(aids));
  std::set<std::string> names;
  for (const NewSnapshotFile& member : members) {
    const bool is_new =
        names.insert(member.names.temporary).second && names.insert(member.names.final).second;
    if (!is_new) {
      return Status::Errno(EINVAL, "takeSnapshots", member.names.final,
                           "two members have this path");
    }
    Result<SourceVolume> source = SourceVolume::Open(member);
    RETURN_IF_ERROR(source);
    if (source->IsRaw()) group.raw_.push_back(group.sources_.size());
    group.sources_.push_back(std::move(*source));
  }
  for (const NewSnapshotFile& member : members) {
    Result<NewFile> file = NewFile::Create(member.names);
    RETURN_IF_ERROR(file);
    group.files_.push_back(std::move(*file));
  }
  return group;
}

Result<TakenSnapshots> SnapshotGroup::Clone() {
  // Before any file system is frozen.
  Status started = StartGuardian();
  if (!started.ok()) return started;
  const uint64_t deadline = ClockNs(CLOCK_MONOTONIC) + kTimeoutNs;
  unsigned pause = 1;
  for (int tries = 1;; tries++) {
    std::optional<TakenSnapshots> outcome;
    RETURN_IF_ERROR(Try(&outcome));
    if (outcome.has_value()) return *outcome;
    if (tries >= kMinTries && ClockNs(CLOCK_MONOTONIC) >= deadline) {
      return Status::Reason(kSnapshotBusy, "takeSnapshots", sources_[raw_.back()].path(),
                            "more than one raw device of the group is being written to (or does "
                            "not count its writes), so they have no common point in time");
    }
    // Nothing is frozen here, so no writer waits for this.
    RETURN_IF_ERROR(EmptyClones());
    SleepMs(pause);
    pause = std::min(pause * 2, kMaxPauseMs);
  }
}

Status SnapshotGroup::StartGuardian() {
  const bool freezes = std::any_of(sources_.begin(), sources_.end(),
                                   [](const SourceVolume& source) { return source.MustFreeze(); });
  if (!freezes) return Status();
  Result<Guardian> guardian = Guardian::Start(guardian_socket_);
  RETURN_IF_ERROR(guardian);
  guardian_.emplace(std::move(*guardian));
  return Status();
}

Status SnapshotGroup::Try(std::optional<TakenSnapshots>* outcome) {
  PrepareClones();
  // Write-back before the freeze keeps the freeze short.
  RETURN_IF_ERROR(FlushAhead());
  Result<std::vector<Freeze>> freezes = FreezeAll();
  RETURN_IF_ERROR(freezes);
  RETURN_IF_ERROR(FlushAll());
  TakenSnapshots result = {ClockNs(CLOCK_REALTIME), 0};
  Result<std::vector<size_t>> written = CloneRaw();
  RETURN_IF_ERROR(written);
  const bool is_good = written->empty();
  if (is_good) {
    RETURN_IF_ERROR(CloneOthers());
  }
  for (Freeze& freeze : *freezes) {
    RETURN_IF_ERROR(freeze.Thaw());
    result.frozen_ns = std::max(result.frozen_ns, freeze.frozen_ns());
  }
  if (is_good) {
    RETURN_IF_ERROR(CloneCopied());
    *outcome = result;
  } else {
    const auto busy = raw_.begin() + static_cast<std::ptrdiff_t>(written->back());
    std::rotate(busy, busy + 1, raw_.end());
  }
  return Status();
}

void SnapshotGroup::PrepareClones() {
  pre_clones_.resize(sources_.size());
  for (size_t member = 0; member < sources_.size(); member++) {
    const SourceVolume& source = sources_[member];
    if (!source.MustFreeze()) continue;
    if (pre_clones_[member] == nullptr) {
      pre_clones_[member] = std::make_unique<PreClone>(source.fd(), source.path(), &files_[member]);
    }
    pre_clones_[member]->Prepare();
  }
  copied_->Prepare(sources_);
}

Result<std::vector<Freeze>> SnapshotGroup::FreezeAll() {
  std::vector<Freeze> freezes;
  std::set<dev_t> frozen;
  for (const SourceVolume& source : sources_) {
    // Two members may have the same source.
    if (!source.MustFreeze() || !frozen.insert(source.device()).second) continue;
    Result<Freeze> freeze = source.BeginFreeze(&*guardian_);
    RETURN_IF_ERROR(freeze);
    freezes.push_back(std::move(*freeze));
  }
  return freezes;
}

Status SnapshotGroup::FlushAhead() const {
  for (const SourceVolume& source : sources_) {
    RETURN_IF_ERROR(source.MustFreeze() ? source.SyncFileSystem() : source.Flush());
  }
  return Status();
}

Status SnapshotGroup::FlushAll() const {
  for (const SourceVolume& source : sources_) {
    RETURN_IF_ERROR(source.Flush());
  }
  return Status();
}

Result<std::vector<size_t>> SnapshotGroup::CloneRaw() {
  std::vector<std::optional<WriteCounters>> before(raw_.size());
  // The last device defines the point in time, so its counters do not matter.
  const size_t watched = raw_.empty() ? 0 : raw_.size() - 1;
  for (size_t position = 0; position < raw_.size(); position++) {
    if (position < watched) {
      Result<std::optional<WriteCounters>> counters =
          ReadWriteCounters(sources_[raw_[position]].device());
      RETURN_IF_ERROR(counters);
      before[position] = *counters;
    }
    RETURN_IF_ERROR(CloneOne(raw_[position]));
  }
  std::vector<size_t> written;
  for (size_t position = 0; position < watched; position++) {
    Result<std::optional<WriteCounters>> after =
        ReadWriteCounters(sources_[raw_[position]].device());
    RETURN_IF_ERROR(after);
    const bool stood_still = before[position].has_value() && *after == before[position];
    if (!stood_still) written.push_back(position);
  }
  return written;
}

Status SnapshotGroup::CloneOthers() {
  copied_->Copy();
  for (size_t member = 0; member < sources_.size(); member++) {
    if (sources_[member].IsRaw() || copied_->IsChosen(member)) continue;
    RETURN_IF_ERROR(CloneOne(member));
  }
  return Status();
}

Status SnapshotGroup::CloneCopied() {
  for (size_t member = 0; member < sources_.size(); member++) {
    if (!copied_->IsChosen(member)) continue;
    RETURN_IF_ERROR(copied_->CloneInto(sources_[member], files_[member]));
  }
  copied_->Clear();
  return Status();
}

Status SnapshotGroup::CloneOne(size_t member) {
  if (pre_clones_[member] != nullptr) return pre_clones_[member]->Complete();
  const NewFile& file = files_[member];
  return CloneInto(sources_[member].fd(), file.fd(), file.temporary());
}

Status SnapshotGroup::EmptyClones() {
  for (const size_t member : raw_) {
    RETURN_IF_ERROR(TruncateFd(files_[member].fd(), 0, files_[member].temporary()));
  }
  return Status();
}

// After the rename: the flag also forbids renaming the file.
Status PublishFrozen(NewFile* file) {
  Status status = file->Publish();
  if (status.ok()) status = SetImmutableFd(file->fd(), true, file->final());
  if (status.ok()) status = SyncFd(file->fd(), file->final());
  return status;
}

Status PublishAllFrozen(std::vector<NewFile>* files) {
  // Everything that can be slow or run out of space happens before the first file is published.
  for (const NewFile& file : *files) {
    // Sealed first: without CAP_DAC_OVERRIDE, a read-only file accepts no attribute.
    RETURN_IF_ERROR(WriteSeal(file.fd(), file.temporary()));
    if (fchmod(file.fd(), kFrozenMode) == -1) {
      return Status::Errno(errno, "fchmod", file.temporary());
    }
    RETURN_IF_ERROR(SyncFd(file.fd(), file.temporary()));
  }
  std::set<std::string> directories;
  for (NewFile& file : *files) {
    RETURN_IF_ERROR(PublishFrozen(&file));
    directories.insert(DirectoryOf(file.final()));
  }
  for (const std::string& directory : directories) {
    RETURN_IF_ERROR(SyncDirectoryOf(directory + "/"));
  }
  return Status();
}

// Removes the files that have their final names; the others remove themselves.
void RemovePublished(const std::vector<NewFile>& files) {
  for (const NewFile& file : files) {
    if (file.published()) static_cast<void>(RemoveFile(file.final()));
  }
}

}  // namespace

Result<TakenSnapshots> TakeSnapshots(const std::vector<NewSnapshotFile>& members,
                                     SnapshotAids aids) {
  if (members.empty()) return Status::Errno(EINVAL, "takeSnapshots", "", "no members");
  Result<SnapshotGroup> group = SnapshotGroup::Open(members, std::move(aids));
  RETURN_IF_ERROR(group);
  Result<TakenSnapshots> outcome = group->Clone();
  if (!outcome.ok()) return outcome;
  Status status = PublishAllFrozen(&group->files());
  if (status.ok()) return outcome;
  // An incomplete or writable file must not keep the name of a snapshot.
  RemovePublished(group->files());
  return status;
}

Result<TakenSnapshots> CloneVolume(const NewSnapshotFile& member, uint64_t size_bytes,
                                   SnapshotAids aids) {
  Result<SnapshotGroup> group = SnapshotGroup::Open({member}, std::move(aids));
  RETURN_IF_ERROR(group);
  if (group->sources()[0].size_bytes() > size_bytes) {
    return Status::Errno(EINVAL, "cloneVolume", member.source_path,
                         "the requested size is smaller than the source");
  }
  Result<TakenSnapshots> outcome = group->Clone();
  if (!outcome.ok()) return outcome;
  NewFile& file = group->files()[0];
  Status status = TruncateFd(file.fd(), size_bytes, file.temporary());
  if (status.ok()) status = file.Publish();
  if (!status.ok()) return status;
  status = SyncDirectoryOf(file.final());
  if (status.ok()) return outcome;
  RemovePublished(group->files());
  return status;
}

}  // namespace blockdelta
