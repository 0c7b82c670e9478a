#include "native/binding/scan.h"

#include <optional>
#include <string>
#include <utility>

#include "native/binding/thin_delta.h"
#include "native/binding/values.h"
#include "native/scan/file_scan.h"
#include "native/scan/fill.h"
#include "native/scan/list_source.h"
#include "native/scan/pattern_source.h"
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

SnapshotIdentity ReadIdentity(const char* name, Fields* source) {
  Fields file = source->Nested(name);
  SnapshotIdentity identity = {file.Path("path"), file.Word("device"), file.Word("inode"),
                               file.Bytes("sizeBytes")};
  source->Adopt(file);
  return identity;
}

Result<FillOutcome> FillFiles(Fields* source, const FillLimits& limits, Span<uint8_t> buffer) {
  SnapshotIdentity target = ReadIdentity("target", source);
  std::optional<SnapshotIdentity> base;
  if (!source->IsNull("base")) base = ReadIdentity("base", source);
  CheckOffset(limits, target.size_bytes, source);
  if (!source->ok()) return source->TakeStatus();
  return FillFromFiles(std::move(target), std::move(base), limits, buffer);
}

Span<const uint64_t> ReadWords(const char* name, Fields* source) {
  const Napi::BigUint64Array words = source->Words(name);
  if (!source->ok()) return Span<const uint64_t>();
  if (words.ElementLength() % ListSource::kWordsPerExtent != 0) {
    source->Reject(std::string(name) + " must have 4 words an extent");
  }
  return Span<const uint64_t>(words.Data(), words.ElementLength());
}

Result<FillOutcome> FillExtents(Fields* source, const FillLimits& limits, Span<uint8_t> buffer) {
  const uint64_t size_bytes = source->Bytes("sizeBytes");
  const Span<const uint64_t> target_words = ReadWords("target", source);
  const bool has_base = !source->IsNull("base");
  const Span<const uint64_t> base_words =
      has_base ? ReadWords("base", source) : Span<const uint64_t>();
  CheckOffset(limits, size_bytes, source);
  if (!source->ok()) return source->TakeStatus();
  ListSource target(target_words, size_bytes);
  ListSource base(base_words, size_bytes);
  return FillFromMaps(&target, has_base ? &base : nullptr, size_bytes, limits, buffer);
}

Result<FillOutcome> FillPattern(Fields* source, const FillLimits& limits, Span<uint8_t> buffer) {
  const uint64_t size_bytes = source->Bytes("sizeBytes");
  const uint64_t extent_bytes = source->Bytes("extentBytes");
  const uint64_t stride_bytes = source->Bytes("strideBytes");
  if (extent_bytes == 0 || extent_bytes > stride_bytes) {
    source->Reject("extentBytes must be from 1 to strideBytes");
  }
  CheckOffset(limits, size_bytes, source);
  if (!source->ok()) return source->TakeStatus();
  PatternSource target(size_bytes, extent_bytes, stride_bytes);
  return FillFromMaps(&target, nullptr, size_bytes, limits, buffer);
}

Result<FillOutcome> FillThin(Fields* source, const FillLimits& limits, Span<uint8_t> buffer) {
  const uint64_t size_bytes = source->Bytes("sizeBytes");
  const ThinScanRequest request = ReadThinScan(source);
  CheckOffset(limits, size_bytes, source);
  if (!source->ok()) return source->TakeStatus();
  return FillFromThin(request, size_bytes, limits, buffer);
}

Result<FillOutcome> FillFromSource(Fields* source, const FillLimits& limits, Span<uint8_t> buffer) {
  const std::string kind = source->Text("kind");
  if (kind == "files") return FillFiles(source, limits, buffer);
  if (kind == "extents") return FillExtents(source, limits, buffer);
  if (kind == "pattern") return FillPattern(source, limits, buffer);
  if (kind == "thin") return FillThin(source, limits, buffer);
  source->Reject("kind must be 'files', 'extents', 'thin' or 'pattern'");
  return source->TakeStatus();
}

Span<uint8_t> ReadBuffer(const Napi::Value& value, Fields* request) {
  if (!value.IsArrayBuffer()) {
    request->Reject("the buffer must be an ArrayBuffer");
    return Span<uint8_t>();
  }
  Napi::ArrayBuffer buffer = value.As<Napi::ArrayBuffer>();
  // A detached one has no bytes.
  if (buffer.ByteLength() < MessageWriter::kMinBufferBytes) {
    request->Reject("the buffer must have at least 4096 bytes");
    return Span<uint8_t>();
  }
  return Span<uint8_t>(static_cast<uint8_t*>(buffer.Data()), buffer.ByteLength());
}

Napi::Value ToObject(Napi::Env env, const FillOutcome& outcome) {
  Napi::Object object = Success(env);
  SetNumber(&object, "messages", outcome.messages);
  SetNumber(&object, "bytes", outcome.bytes);
  SetNumber(&object, "entries", outcome.entries);
  SetBigInt(&object, "entryBytes", outcome.entry_bytes);
  SetBigInt(&object, "nextOffset", outcome.next_offset);
  SetBigInt(&object, "nextRangeStart", outcome.next_range_start);
  SetBoolean(&object, "done", outcome.done);
  SetNumber(&object, "extents", outcome.extents);
  SetNumber(&object, "rescans", outcome.rescans);
  SetBigInt(&object, "unprovedBytes", outcome.unproved_bytes);
  SetNumber(&object, "nodes", outcome.nodes);
  return object;
}

}  // namespace

Napi::Value FillMetadataBinding(const Napi::CallbackInfo& info) {
  Fields request(info[0], kFunction);
  const FillLimits limits = ReadLimits(&request);
  const Span<uint8_t> buffer = ReadBuffer(info[1], &request);
  Fields source = request.Nested("source");
  if (!request.ok()) return Failed(info.Env(), request.TakeStatus());
  Result<FillOutcome> outcome = FillFromSource(&source, limits, buffer);
  if (!outcome.ok()) return Failed(info.Env(), outcome.status());
  return ToObject(info.Env(), *outcome);
}

}  // namespace blockdelta
