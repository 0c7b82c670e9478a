// JavaScript values to C++ values and back, every type and range checked.
//
// Nothing here aborts or throws: what does not fit is noted, and answered as a NativeFailure with
// code EINVAL. Knows no function of the addon in particular.
#ifndef BLOCKDELTA_NATIVE_BINDING_VALUES_H_
#define BLOCKDELTA_NATIVE_BINDING_VALUES_H_

#include <napi.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "native/base/status.h"

namespace blockdelta {

// Reads the fields of one request object. The first field that does not fit is remembered, and
// reads go on with empty values, so that a function reads everything and then asks ok() once.
class Fields {
 public:
  // `function` names the addon's function in failures.
  Fields(const Napi::Value& request, const char* function);

  // A path: not empty, no NUL bytes.
  std::string Path(const char* name);
  std::optional<std::string> PathOrNull(const char* name);
  std::string Text(const char* name);
  bool Boolean(const char* name);
  // A bigint from 0 to 2^63 - 1: sizes and offsets.
  uint64_t Bytes(const char* name);
  // A bigint from 0 to 2^64 - 1: device and inode numbers.
  uint64_t Word(const char* name);
  // An integral number from 1 to 2^53 - 1.
  uint64_t Count(const char* name);
  // An integral number from 0 to `max`, which is at most 2^53 - 1.
  uint64_t Whole(const char* name, uint64_t max);
  // A string, or nothing for null.
  std::optional<std::string> TextOrNull(const char* name);
  // An array of 1 to 4096 strings.
  std::vector<std::string> Texts(const char* name);
  // A BigUint64Array. Its elements belong to JavaScript, and reading a further field can take them
  // away: what the wrapper says of them holds until then.
  Napi::BigUint64Array Words(const char* name);
  // Integral numbers from 0 to `max`, at most `max_count` of them.
  std::vector<uint64_t> Numbers(const char* name, uint64_t max, uint32_t max_count);
  bool IsNull(const char* name);
  // The fields of an object inside this one. It has its own ok(); Adopt() takes it over.
  Fields Nested(const char* name);
  void Adopt(const Fields& nested);

  // The fields of each object of an array, which has 1 to 4096. Adopt() them as well.
  std::vector<Fields> Objects(const char* name);

  // Remembers a failure found by the caller: "<function>: <what>".
  void Reject(const std::string& what);

  bool ok() const { return problem_.empty(); }
  // REQUIRES: !ok().
  Status TakeStatus() const;

 private:
  Napi::Value Get(const char* name);
  void Expect(const char* name, const char* what);

  Napi::Env env_;
  Napi::Object object_;
  const char* function_;
  std::string problem_;
};

// { ok: true }
Napi::Object Success(Napi::Env env);
// A NativeFailure. REQUIRES: !status.ok().
Napi::Value Failed(Napi::Env env, const Status& status);
// One or the other.
Napi::Value Answer(Napi::Env env, const Status& status);

void SetBigInt(Napi::Object* object, const char* name, uint64_t value);
// Counts that fit a double without loss.
void SetNumber(Napi::Object* object, const char* name, uint64_t value);
void SetBoolean(Napi::Object* object, const char* name, bool value);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_BINDING_VALUES_H_
