#include "native/scan/fill.h"

#include <algorithm>

namespace blockdelta {
namespace {

// Minimum extents per read: an ioctl costs as much as many extents.
constexpr uint64_t kMinBatchExtents = 64;

}  // namespace

Filler::Filler(IntervalWalk* walk, MessageWriter* writer, const FillLimits& limits)
    : walk_(walk),
      writer_(writer),
      limits_(limits),
      position_(limits.offset),
      range_start_(limits.range_start) {}

Status Filler::Seek() {
  return walk_->Seek(position_, [this] { return LikelyExtents(); });
}

Status Filler::Run(uint64_t extents) {
  const uint64_t stop = walk_->extents() + extents;
  return walk_->has_base() ? RunUntil<true>(stop) : RunUntil<false>(stop);
}

template <bool HAS_BASE>
Status Filler::RunUntil(uint64_t stop) {
  const uint64_t size = walk_->size_bytes();
  while (position_ < size) {
    if (!HAS_BASE) ConsumeAhead(stop);
    const Interval interval = walk_->Current<HAS_BASE>();
    if (!Consume(interval) || writer_->entries() >= limits_.max_entries ||
        walk_->extents() >= limits_.max_extents) {
      finished_ = true;
      break;
    }
    if (position_ == size) break;
    Status status = walk_->Advance<HAS_BASE>(interval.end, [this] { return LikelyExtents(); });
    if (!status.ok()) return status;
    if (walk_->extents() >= stop) return Status();
  }
  if (position_ == size) {
    WriteOpenRange();
    finished_ = true;
  }
  return Status();
}

void Filler::ConsumeAhead(uint64_t stop) {
  const uint64_t size = walk_->size_bytes();
  const uint64_t entries = limits_.max_entries - writer_->entries();
  const uint64_t visited = walk_->extents();
  const uint64_t extents = std::min(stop, limits_.max_extents);
  // An extent ends one range at most, so this many cannot reach a limit.
  if (entries <= 1 || extents <= visited + 1) return;
  const uint64_t limit = std::min(entries, extents - visited) - 1;
  // The copies stay in registers, whereas a write to the buffer could change any member.
  uint64_t position = position_;
  uint64_t range_start = range_start_;
  MessageWriter::Appender appender(writer_);
  walk_->TakeAhead(position, limit, [&](uint64_t start, uint64_t end, ExtentClass kind) {
    if (end >= size) return false;
    const uint64_t data = std::max(start, position);
    const bool reported = kind != ExtentClass::kZero;
    if ((data > position || !reported) && range_start != position) {
      if (!appender.Add(range_start, position - range_start)) return false;
      range_start = position;
    }
    if (data > position) range_start = data;
    if (!reported) range_start = end;
    position = end;
    return true;
  });
  position_ = position;
  range_start_ = range_start;
}

bool Filler::Consume(const Interval& interval) {
  if (!interval.reported) {
    if (!WriteOpenRange()) return false;
    range_start_ = interval.end;
  }
  if (interval.unproved) unproved_bytes_ += interval.end - position_;
  position_ = interval.end;
  return true;
}

bool Filler::WriteOpenRange() {
  if (range_start_ == position_) return true;
  if (writer_->entries() >= limits_.max_entries) return false;
  if (!writer_->Add(range_start_, position_ - range_start_)) return false;
  range_start_ = position_;
  return true;
}

// Extents read ahead but not used are read again by the next call.
size_t Filler::LikelyExtents() const {
  const uint64_t entries = limits_.max_entries - writer_->entries() + 1;
  const uint64_t extents = limits_.max_extents - std::min(limits_.max_extents, walk_->extents());
  const uint64_t likely = std::max(kMinBatchExtents, std::min(entries, extents));
  return static_cast<size_t>(std::min<uint64_t>(likely, kMaxBatchExtents));
}

Filler::Mark Filler::mark() const {
  return {position_, range_start_, unproved_bytes_, finished_, writer_->mark()};
}

void Filler::Rewind(const Mark& mark) {
  position_ = mark.position;
  range_start_ = mark.range_start;
  unproved_bytes_ = mark.unproved_bytes;
  finished_ = mark.finished;
  writer_->Rewind(mark.written);
}

FillOutcome Filler::Finish() {
  FillOutcome outcome;
  outcome.done = position_ == walk_->size_bytes() && range_start_ == position_;
  if (outcome.done && limits_.send_empty && writer_->messages() == 0) writer_->AddEmptyMessage();
  writer_->Finish();
  outcome.messages = writer_->messages();
  outcome.bytes = writer_->bytes();
  outcome.entries = writer_->entries();
  outcome.entry_bytes = writer_->entry_bytes();
  outcome.next_offset = position_;
  outcome.next_range_start = range_start_;
  outcome.extents = walk_->extents();
  outcome.unproved_bytes = unproved_bytes_;
  return outcome;
}

Result<FillOutcome> FillFromMaps(ExtentSource* target, ExtentSource* base, uint64_t size_bytes,
                                 const FillLimits& limits, Span<uint8_t> buffer) {
  IntervalWalk walk(target, base, size_bytes);
  MessageWriter writer(buffer, size_bytes, limits.max_entries_per_message);
  Filler filler(&walk, &writer, limits);
  Status status = filler.Seek();
  if (status.ok()) status = filler.Run(limits.max_extents);
  if (!status.ok()) return status;
  return filler.Finish();
}

}  // namespace blockdelta
