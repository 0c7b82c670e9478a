// The addon of pattern-addon.ts: fills the chunks of a stream from a generated map, with the code
// that fills them from all other maps. Knows neither files nor the fields of a request.
#include <node_api.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "native/scan/fill.h"
#include "test/native/pattern_source.h"

namespace blockdelta::test {
namespace {

constexpr size_t kRequestWords = 9;

napi_value Refuse(napi_env env, const char* what) {
  napi_throw_error(env, nullptr, what);
  return nullptr;
}

// fillPattern(words, buffer): the words are the request, and afterwards the answer, in the order of
// pattern-addon.ts.
napi_value FillPattern(napi_env env, napi_callback_info info) {
  size_t count = 2;
  napi_value arguments[2];
  void* data = nullptr;
  size_t length = 0;
  void* bytes = nullptr;
  size_t size = 0;
  if (napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr) != napi_ok || count != 2 ||
      napi_get_typedarray_info(env, arguments[0], nullptr, &length, &data, nullptr, nullptr) !=
          napi_ok ||
      napi_get_arraybuffer_info(env, arguments[1], &bytes, &size) != napi_ok ||
      length != kRequestWords || size < MessageWriter::kMinBufferBytes) {
    return Refuse(env, "fillPattern needs 9 words and a buffer of 4096 bytes");
  }
  auto* const words = static_cast<uint64_t*>(data);
  const FillLimits limits = {words[3], words[4], words[5], words[6], words[7], words[8] != 0};
  PatternSource source(words[0], words[1], words[2]);
  Result<FillOutcome> filled = FillFromMaps(&source, nullptr, words[0], limits,
                                            Span<uint8_t>(static_cast<uint8_t*>(bytes), size));
  if (!filled.ok()) return Refuse(env, "a generated map cannot be read");
  const uint64_t answer[] = {filled->messages,       filled->bytes,       filled->entries,
                             filled->entry_bytes,    filled->next_offset, filled->next_range_start,
                             filled->done ? 1u : 0u, filled->extents};
  std::copy(std::begin(answer), std::end(answer), words);
  return nullptr;
}

}  // namespace
}  // namespace blockdelta::test

NAPI_MODULE_INIT() {
  napi_value fill = nullptr;
  napi_create_function(env, "fillPattern", NAPI_AUTO_LENGTH, blockdelta::test::FillPattern, nullptr,
                       &fill);
  napi_set_named_property(env, exports, "fillPattern", fill);
  return exports;
}
