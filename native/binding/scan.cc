#include <optional>
#include <string>
#include <utility>

#include "native/binding/functions.h"
#include "native/binding/requests.h"
#include "native/binding/values.h"
#include "native/scan/file_scan.h"
#include "native/scan/fill.h"
#include "native/scan/list_source.h"
#include "native/thin/thin_fill.h"

namespace blockdelta {
namespace {

constexpr char kFunction[] = "fillMetadata";

FillLimits ReadLimits(Fields* request) {
  FillLimits limits;
  limits.offset = request->Bytes("offset");
  limits.range_start = request->Bytes("rangeStart");
  limits.max_entries = request->Count("maxEntries");
  limits.max_entries_per_message = request->Count("maxEntriesPerMessage");
  limits.max_extents = request->Count("maxExtents");
  limits.send_empty = request->Boolean("sendEmpty");
  if (limits.range_start > limits.offset) request->Reject("rangeStart must not be above offset");
  return limits;
}

void CheckOffset(const FillLimits& limits, uint64_t size_bytes, Fields* source) {
  if (limits.offset > size_bytes) source->Reject("offset must not be above the size of the target");
}

// Reading a field can run a getter, which can detach or shrink any ArrayBuffer. The two functions
// below therefore run after the last field of the request has been read: no JavaScript runs from
// then on, and the memory stays in place.
Span<uint8_t> BufferSpan(const Napi::Value& value, Fields* source) {
  if (!value.IsArrayBuffer()) {
    source->Reject("the buffer must be an ArrayBuffer");
    return Span<uint8_t>();
  }
  Napi::ArrayBuffer buffer = value.As<Napi::ArrayBuffer>();
  // A detached buffer has no bytes.
  if (buffer.ByteLength() < MessageWriter::kMinBufferBytes) {
    source->Reject("the buffer must have at least 4096 bytes");
    return Span<uint8_t>();
  }
  return Span<uint8_t>(static_cast<uint8_t*>(buffer.Data()), buffer.ByteLength());
}

Span<const uint64_t> WordSpan(const Napi::BigUint64Array& read, Fields* source) {
  if (!source->ok()) return Span<const uint64_t>();
  // A wrapper caches pointer and length from its construction, so the array is wrapped again.
  const Napi::BigUint64Array words = read.As<Napi::BigUint64Array>();
  // An empty list of extents is valid, so a detached array must not pass for one.
  if (words.ElementLength() != read.ElementLength()) {
    source->Reject("target and base must not change while the request is read");
  }
  if (words.ElementLength() % ListSource::kWordsPerExtent != 0) {
    source->Reject("target and base must have 4 words per extent");
  }
  return Span<const uint64_t>(words.Data(), words.ElementLength());
}

Result<FillOutcome> FillFiles(Fields* source, const FillLimits& limits, const Napi::Value& buffer) {
  SnapshotIdentity target = ReadIdentity("target", source);
  std::optional<SnapshotIdentity> base;
  if (!source->IsNull("base")) base = ReadIdentity("base", source);
  CheckOffset(limits, target.size_bytes, source);
  const Span<uint8_t> bytes = BufferSpan(buffer, source);
  if (!source->ok()) return source->TakeStatus();
  return FillFromFiles(std::move(target), std::move(base), limits, bytes);
}

Result<FillOutcome> FillExtents(Fields* source, const FillLimits& limits,
                                const Napi::Value& buffer) {
  const uint64_t size_bytes = source->Bytes("sizeBytes");
  const Napi::BigUint64Array target_words = source->Uint64s("target");
  const bool has_base = !source->IsNull("base");
  const Napi::BigUint64Array base_words = has_base ? source->Uint64s("base") : target_words;
  CheckOffset(limits, size_bytes, source);
  const Span<uint8_t> bytes = BufferSpan(buffer, source);
  const Span<const uint64_t> target_span = WordSpan(target_words, source);
  const Span<const uint64_t> base_span = WordSpan(base_words, source);
  if (!source->ok()) return source->TakeStatus();
  ListSource target(target_span, size_bytes);
  ListSource base(base_span, size_bytes);
  return FillFromMaps(&target, has_base ? &base : nullptr, size_bytes, limits, bytes);
}

Result<FillOutcome> FillThin(Fields* source, const FillLimits& limits, const Napi::Value& buffer) {
  const uint64_t size_bytes = source->Bytes("sizeBytes");
  const ThinScanRequest request = ReadThinScan(source);
  CheckOffset(limits, size_bytes, source);
  const Span<uint8_t> bytes = BufferSpan(buffer, source);
  if (!source->ok()) return source->TakeStatus();
  return FillFromThin(request, size_bytes, limits, bytes);
}

Result<FillOutcome> FillLists(Fields* source, const FillLimits& limits, const Napi::Value& buffer) {
  ChangeListRequest request = ReadChangeLists(source);
  CheckOffset(limits, request.size_bytes, source);
  const Span<uint8_t> bytes = BufferSpan(buffer, source);
  if (!source->ok()) return source->TakeStatus();
  return FillFromLists(std::move(request), limits, bytes);
}

Result<FillOutcome> FillFromSource(Fields* source, const FillLimits& limits,
                                   const Napi::Value& buffer) {
  const std::string kind = source->String("kind");
  if (kind == "files") return FillFiles(source, limits, buffer);
  if (kind == "lists") return FillLists(source, limits, buffer);
  if (kind == "extents") return FillExtents(source, limits, buffer);
  if (kind == "thin") return FillThin(source, limits, buffer);
  source->Reject("kind must be 'files', 'lists', 'extents' or 'thin'");
  return source->TakeStatus();
}

void SetOutcome(Napi::Object* answer, const FillOutcome& outcome) {
  SetNumber(answer, "messages", outcome.messages);
  SetNumber(answer, "bytes", outcome.bytes);
  SetNumber(answer, "entries", outcome.entries);
  SetBigInt(answer, "entryBytes", outcome.entry_bytes);
  SetBigInt(answer, "nextOffset", outcome.next_offset);
  SetBigInt(answer, "nextRangeStart", outcome.next_range_start);
  SetBoolean(answer, "done", outcome.done);
  SetNumber(answer, "extents", outcome.extents);
  SetNumber(answer, "rescans", outcome.rescans);
  SetBigInt(answer, "unprovedBytes", outcome.unproved_bytes);
  SetNumber(answer, "nodes", outcome.nodes);
}

// The function's second argument is the buffer.
Napi::Value FillMetadataBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], kFunction);
  const FillLimits limits = ReadLimits(&request);
  Fields source = request.Object("source");
  return Answer(
      &request, [&] { return FillFromSource(&source, limits, info[1]); }, SetOutcome);
}

}  // namespace

void ExportScan(Napi::Object* exports) {
  exports->Set(kFunction, Napi::Function::New<FillMetadataBinding>(exports->Env(), kFunction));
}

}  // namespace blockdelta
