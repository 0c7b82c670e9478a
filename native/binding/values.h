// Converts JavaScript values to C++ values and back, checking every type and range.
//
// Nothing here aborts or throws: an invalid value is recorded and returned as a NativeFailure with
// code EINVAL. Knows no particular function of the addon.
#ifndef BLOCKDELTA_NATIVE_BINDING_VALUES_H_
#define BLOCKDELTA_NATIVE_BINDING_VALUES_H_

#include <napi.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "native/base/status.h"

namespace blockdelta {

// Reads the fields of one request object. Records the first invalid field and keeps reading empty
// values, so that a function reads every field and then checks ok() once.
class Fields {
 public:
  // `function` names the addon function in failures.
  Fields(const Napi::Value& request, const char* function);

  // A non-empty path without NUL bytes.
  std::string Path(const char* name);
  std::optional<std::string> PathOrNull(const char* name);
  std::string String(const char* name);
  bool Boolean(const char* name);
  // A bigint from 0 to 2^63 - 1: sizes and offsets.
  uint64_t Bytes(const char* name);
  std::optional<uint64_t> BytesOrNull(const char* name);
  // A bigint from 0 to 2^64 - 1: device and inode numbers.
  uint64_t Uint64(const char* name);
  // An integral number from 1 to 2^53 - 1.
  uint64_t Count(const char* name);
  // An integral number from 0 to `max`, which is at most 2^53 - 1.
  uint64_t Integer(const char* name, uint64_t max);
  // A string, or nothing for null.
  std::optional<std::string> StringOrNull(const char* name);
  // An array of 1 to 4096 strings.
  std::vector<std::string> Strings(const char* name);
  // A BigUint64Array. JavaScript owns the elements, and reading another field may detach them: the
  // wrapper's pointer and length are valid only until then.
  Napi::BigUint64Array Uint64s(const char* name);
  // An array of at most `max_count` integral numbers from 0 to `max`.
  std::vector<uint64_t> Integers(const char* name, uint64_t max, uint32_t max_count);
  bool IsNull(const char* name);
  // The fields of a nested object. The result has its own ok(); pass it to TakeProblem().
  Fields Object(const char* name);
  void TakeProblem(const Fields& nested);

  // The fields of each object in an array of 1 to 4096 objects. Pass each to TakeProblem().
  std::vector<Fields> Objects(const char* name);

  // Records a problem found by the caller: "<function>: <problem>".
  void Reject(const std::string& problem);

  Napi::Env env() const { return env_; }
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

void SetBigInt(Napi::Object* object, const char* name, uint64_t value);
// `value` must fit a double exactly.
void SetNumber(Napi::Object* object, const char* name, uint64_t value);
void SetBoolean(Napi::Object* object, const char* name, bool value);

// Returns a bigint. A file that returns objects overloads this for their types, in this namespace.
Napi::Value ToValue(Napi::Env env, uint64_t value);
Napi::Value ToValue(Napi::Env env, bool value);

// The value or null.
template <typename T>
Napi::Value ToValue(Napi::Env env, const std::optional<T>& value) {
  return value.has_value() ? ToValue(env, *value) : env.Null();
}

template <typename T>
Napi::Value ToValue(Napi::Env env, const std::vector<T>& values) {
  Napi::Array array = Napi::Array::New(env, values.size());
  for (uint32_t i = 0; i < values.size(); i++) array.Set(i, ToValue(env, values[i]));
  return array;
}

// Answers a request: with a NativeFailure if the request is invalid or `work` fails, otherwise with
// { ok: true }, to which `fill` adds the value of the Result that `work` returns. Does not call
// `work` for an invalid request.
template <typename Work, typename Fill>
Napi::Value Answer(const Fields* request, Work work, Fill fill) {
  if (!request->ok()) return Failed(request->env(), request->TakeStatus());
  auto result = work();
  if (!result.ok()) return Failed(request->env(), result.status());
  Napi::Object answer = Success(request->env());
  fill(&answer, *result);
  return answer;
}

// Answer() that adds the value of the Result as the field `name`.
template <typename Work>
Napi::Value AnswerValue(const Fields* request, const char* name, Work work) {
  return Answer(request, work, [name](Napi::Object* answer, const auto& value) {
    answer->Set(name, ToValue(answer->Env(), value));
  });
}

// Answer() for work that returns a Status and therefore no value.
template <typename Work>
Napi::Value AnswerStatus(const Fields* request, Work work) {
  const Status status = request->ok() ? work() : request->TakeStatus();
  return status.ok() ? Success(request->env()) : Failed(request->env(), status);
}

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_BINDING_VALUES_H_
