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
#include "native/device/standstill.h"
#include "native/device/write_counters.h"

namespace blockdelta {
namespace {

// Time limit for retries while raw devices are written to, or others thaw file systems.
constexpr uint64_t kTimeoutNs = 2'000'000'000;
constexpr unsigned kMaxPauseMs = 50;
// Two tries are made however long they take: the second one clones a single busy device last.
constexpr int kMinTries = 2;

// A file system to freeze, named by one of its members, and its own guardian, so that a freeze that
// hangs does not keep the others frozen.
struct FrozenSystem {
  const SourceVolume* source;
  Guardian guardian;
};

// Snapshots of several volumes, from the opened sources to the clones under their temporary names.
class SnapshotGroup {
 public:
  static Result<SnapshotGroup> Open(const std::vector<NewSnapshotFile>& members, SnapshotAids aids);

  // Freezes, flushes, clones and thaws until all clones show one point in time.
  Result<TakenSnapshots> Clone();

  // Called before the clones get their names. ETIMEDOUT if the caller has given up and would never
  // learn of the clones.
  Status CheckAwaited() const;

  const std::vector<SourceVolume>& sources() const { return sources_; }
  std::vector<NewFile>& files() { return files_; }

 private:
  explicit SnapshotGroup(SnapshotAids aids)
      : freezing_(std::move(aids.freezing)),
        end_ns_(freezing_.EndNs()),
        copied_(std::make_unique<CopiedSources>(std::move(aids.copy_path))) {}

  Status StartGuardians();
  // Makes one try. Sets `outcome` if the clones are consistent; otherwise reorders `raw_` for the
  // next try or sets `unsettled_`.
  Status Try(std::optional<TakenSnapshots>* outcome);
  // Clones everything at one point in time while the file systems stand still. False if the raw
  // devices did not.
  Result<bool> CloneAll();
  // Clones, ahead of the freeze, the files whose writers the freeze will stop.
  void PrepareClones();
  Result<std::vector<Standstill>> FreezeAll();
  // Called before the first clone. False if nothing can be proved this time.
  Result<bool> WatchAll(std::vector<Standstill>* standstills);
  // Called after the last clone; thaws. False if a file system did not stand still.
  Result<bool> EndAll(std::vector<Standstill>* standstills, uint64_t* frozen_ns);
  Status FlushAhead() const;
  Status FlushAll() const;
  // Clones the raw devices in the order of `raw_`. Returns the positions in `raw_` of devices that
  // were, or may have been, written to between their own clone and the last one.
  Result<std::vector<size_t>> CloneRaw();
  // Clones, or copies together with their subvolume, all other volumes.
  Status CloneOthers();
  // Clones from the copy of the subvolume, and removes it.
  Status CloneCopied();
  // ETIMEDOUT if the freeze did not last until the end of the clone.
  Status CloneOne(size_t member);
  Status EmptyClones();

  const FreezeOptions freezing_;
  const uint64_t end_ns_;                // CLOCK_MONOTONIC.
  uint64_t freeze_end_ns_ = UINT64_MAX;  // End of this try's freeze; UINT64_MAX if none is ours.
  std::vector<SourceVolume> sources_;
  std::vector<NewFile> files_;
  std::vector<std::unique_ptr<PreClone>> pre_clones_;  // One per member; null if not frozen.
  std::unique_ptr<CopiedSources> copied_;
  std::vector<FrozenSystem> file_systems_;
  std::vector<size_t> raw_;  // Members that are raw devices, in the order of cloning.
  std::string unsettled_;    // The mount point of a file system that did not stand still; or empty.
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
  // The guardians start before any file system is frozen.
  Status started = StartGuardians();
  if (!started.ok()) return started;
  const uint64_t deadline = std::min(end_ns_, ClockNs(CLOCK_MONOTONIC) + kTimeoutNs);
  unsigned pause = 1;
  for (int tries = 1;; tries++) {
    std::optional<TakenSnapshots> outcome;
    RETURN_IF_ERROR(Try(&outcome));
    if (outcome.has_value()) return *outcome;
    if (tries >= kMinTries && ClockNs(CLOCK_MONOTONIC) >= deadline) {
      if (!unsettled_.empty()) {
        return Status::Reason(kSnapshotThawed, "takeSnapshots", unsettled_,
                              "another program thawed or froze it each time it was cloned");
      }
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

Status SnapshotGroup::StartGuardians() {
  // Two members may have the same source.
  std::set<dev_t> devices;
  for (const SourceVolume& source : sources_) {
    if (!source.MustFreeze() || !devices.insert(source.device()).second) continue;
    Result<Guardian> guardian = Guardian::Start(freezing_.guardian_socket);
    RETURN_IF_ERROR(guardian);
    file_systems_.push_back({&source, std::move(*guardian)});
  }
  return Status();
}

Status SnapshotGroup::Try(std::optional<TakenSnapshots>* outcome) {
  PrepareClones();
  // Write-back before the freeze keeps the freeze short.
  RETURN_IF_ERROR(FlushAhead());
  Result<std::vector<Standstill>> standstills = FreezeAll();
  RETURN_IF_ERROR(standstills);
  RETURN_IF_ERROR(FlushAll());
  Result<bool> is_good = WatchAll(&*standstills);
  RETURN_IF_ERROR(is_good);
  TakenSnapshots result = {ClockNs(CLOCK_REALTIME), 0};
  if (*is_good) is_good = CloneAll();
  RETURN_IF_ERROR(is_good);
  Result<bool> stood_still = EndAll(&*standstills, &result.frozen_ns);
  RETURN_IF_ERROR(stood_still);
  if (*is_good && *stood_still) {
    RETURN_IF_ERROR(CloneCopied());
    *outcome = result;
  }
  return Status();
}

Result<bool> SnapshotGroup::CloneAll() {
  Result<std::vector<size_t>> written = CloneRaw();
  RETURN_IF_ERROR(written);
  if (!written->empty()) {
    unsettled_.clear();
    const auto busy = raw_.begin() + static_cast<std::ptrdiff_t>(written->back());
    std::rotate(busy, busy + 1, raw_.end());
    return false;
  }
  RETURN_IF_ERROR(CloneOthers());
  return true;
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

Result<std::vector<Standstill>> SnapshotGroup::FreezeAll() {
  freeze_end_ns_ = std::min(end_ns_, ClockNs(CLOCK_MONOTONIC) + freezing_.limit_ms * kNsPerMs);
  std::vector<Standstill> standstills;
  bool any_ours = false;
  for (FrozenSystem& file_system : file_systems_) {
    RETURN_IF_ERROR(file_system.guardian.Limit(freeze_end_ns_));
    Result<Standstill> standstill = Standstill::Begin(file_system.source, &file_system.guardian);
    RETURN_IF_ERROR(standstill);
    any_ours = any_ours || !standstill->by_another();
    standstills.push_back(std::move(*standstill));
  }
  if (!any_ours) freeze_end_ns_ = UINT64_MAX;
  return standstills;
}

Result<bool> SnapshotGroup::WatchAll(std::vector<Standstill>* standstills) {
  for (Standstill& standstill : *standstills) {
    Result<bool> is_quiet = standstill.Watch();
    RETURN_IF_ERROR(is_quiet);
    const SourceVolume& source = standstill.source();
    if (standstill.by_another() && !*is_quiet) {
      unsettled_ = source.mount_point();
      return false;
    }
    if (!standstill.by_another() || standstill.is_counted()) continue;
    if (sources_.size() > 1) {
      return Status::Reason(kSnapshotUncounted, "takeSnapshots", source.mount_point(),
                            "its device does not count writes (queue/iostats is 0)");
    }
    pre_clones_[0].reset();
    copied_->Clear();
    RETURN_IF_ERROR(TruncateFd(files_[0].fd(), 0, files_[0].temporary()));
  }
  return true;
}

Result<bool> SnapshotGroup::EndAll(std::vector<Standstill>* standstills, uint64_t* frozen_ns) {
  bool all = true;
  // File systems that others have frozen can wait, because their writers wait anyway.
  for (const bool by_another : {false, true}) {
    for (Standstill& standstill : *standstills) {
      if (standstill.by_another() != by_another) continue;
      Result<bool> stood_still = standstill.End();
      RETURN_IF_ERROR(stood_still);
      if (!*stood_still) unsettled_ = standstill.source().mount_point();
      all = all && *stood_still;
      *frozen_ns = std::max(*frozen_ns, standstill.frozen_ns());
    }
  }
  return all;
}

Status SnapshotGroup::FlushAhead() const {
  for (const SourceVolume& source : sources_) {
    RETURN_IF_ERROR(source.MustFreeze() ? source.SyncFileSystem() : source.Flush());
    if (source.MustFreeze() && ClockNs(CLOCK_MONOTONIC) >= end_ns_) {
      return Status::Errno(ETIMEDOUT, "syncfs", source.mount_point());
    }
  }
  return Status();
}

Status SnapshotGroup::FlushAll() const {
  for (const SourceVolume& source : sources_) {
    RETURN_IF_ERROR(source.Flush());
    // Reports a slow flush as such, and not as a clone that takes too long.
    if (ClockNs(CLOCK_MONOTONIC) < freeze_end_ns_) continue;
    return Status::Errno(ETIMEDOUT, "fsync", source.path());
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
  const SourceVolume& source = sources_[member];
  const NewFile& file = files_[member];
  PreClone* const pre_clone = pre_clones_[member].get();
  RETURN_IF_ERROR(pre_clone != nullptr ? pre_clone->Complete()
                                       : CloneInto(source.fd(), file.fd(), file.temporary()));
  if (ClockNs(CLOCK_MONOTONIC) < freeze_end_ns_) return Status();
  return Status::Errno(ETIMEDOUT, "FICLONE", source.path(),
                       "the file systems were frozen for as long as they may be");
}

Status SnapshotGroup::EmptyClones() {
  for (const size_t member : raw_) {
    RETURN_IF_ERROR(TruncateFd(files_[member].fd(), 0, files_[member].temporary()));
  }
  return Status();
}

Status SnapshotGroup::CheckAwaited() const {
  if (ClockNs(CLOCK_MONOTONIC) < end_ns_) return Status();
  return Status::Errno(ETIMEDOUT, "FICLONE", sources_[0].path(),
                       "the caller's deadline has passed, so the clone was discarded");
}

// The flag is set after the rename, because it also forbids renaming the file.
Status PublishFrozen(NewFile* file) {
  Status status = file->Publish();
  if (status.ok()) status = SetImmutableFd(file->fd(), true, file->final());
  if (status.ok()) status = SyncFd(file->fd(), file->final());
  return status;
}

Status PublishAllFrozen(SnapshotGroup* group) {
  // Everything that can be slow or run out of space happens before the first file is published.
  for (const NewFile& file : group->files()) {
    RETURN_IF_ERROR(SealFile(file.fd(), file.temporary()));
  }
  RETURN_IF_ERROR(group->CheckAwaited());
  std::set<std::string> directories;
  for (NewFile& file : group->files()) {
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
  Status status = PublishAllFrozen(&*group);
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
  if (status.ok()) status = group->CheckAwaited();
  if (status.ok()) status = file.Publish();
  if (!status.ok()) return status;
  status = SyncDirectoryOf(file.final());
  if (status.ok()) return outcome;
  RemovePublished(group->files());
  return status;
}

}  // namespace blockdelta
