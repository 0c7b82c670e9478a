#include "native/binding/values.h"

#include <cerrno>
#include <cmath>

namespace blockdelta {
namespace {

constexpr double kMaxSafeInteger = 9007199254740991;
constexpr uint32_t kMaxObjects = 4096;

// Returns `read`, or undefined if a getter threw. The plugin's own requests have no getters.
Napi::Value ClearException(Napi::Env env, Napi::Value read) {
  if (!env.IsExceptionPending()) return read;
  env.GetAndClearPendingException();
  return env.Undefined();
}

}  // namespace

Fields::Fields(const Napi::Value& request, const char* function)
    : env_(request.Env()), function_(function) {
  if (request.IsObject()) {
    object_ = request.As<Napi::Object>();
  } else {
    Reject("the request must be an object");
  }
}

Napi::Value Fields::Get(const char* name) {
  if (object_.IsEmpty()) return env_.Undefined();
  return ClearException(env_, object_.Get(name));
}

std::string Fields::String(const char* name) {
  const Napi::Value value = Get(name);
  if (!value.IsString()) {
    Expect(name, "a string");
    return std::string();
  }
  return value.As<Napi::String>().Utf8Value();
}

std::string Fields::Path(const char* name) {
  std::string path = String(name);
  if (path.empty() || path.find('\0') != std::string::npos) {
    Expect(name, "a non-empty path without NUL bytes");
  }
  return path;
}

std::optional<std::string> Fields::PathOrNull(const char* name) {
  if (IsNull(name)) return std::nullopt;
  return Path(name);
}

bool Fields::Boolean(const char* name) {
  const Napi::Value value = Get(name);
  if (value.IsBoolean()) return value.As<Napi::Boolean>().Value();
  Expect(name, "a boolean");
  return false;
}

uint64_t Fields::Uint64(const char* name) {
  const Napi::Value value = Get(name);
  bool lossless = false;
  const uint64_t word = value.IsBigInt() ? value.As<Napi::BigInt>().Uint64Value(&lossless) : 0;
  if (!lossless) Expect(name, "a bigint from 0 to 2^64 - 1");
  return lossless ? word : 0;
}

uint64_t Fields::Bytes(const char* name) {
  const uint64_t bytes = Uint64(name);
  if (bytes <= INT64_MAX) return bytes;
  Expect(name, "a bigint from 0 to 2^63 - 1");
  return 0;
}

uint64_t Fields::Count(const char* name) {
  const Napi::Value value = Get(name);
  const double number = value.IsNumber() ? value.As<Napi::Number>().DoubleValue() : 0;
  if (number >= 1 && number <= kMaxSafeInteger && std::trunc(number) == number) {
    return static_cast<uint64_t>(number);
  }
  Expect(name, "an integer of at least 1");
  return 1;
}

uint64_t Fields::Integer(const char* name, uint64_t max) {
  const Napi::Value value = Get(name);
  const double number = value.IsNumber() ? value.As<Napi::Number>().DoubleValue() : -1;
  if (number >= 0 && number <= static_cast<double>(max) && std::trunc(number) == number) {
    return static_cast<uint64_t>(number);
  }
  Reject(std::string(name) + " must be an integer from 0 to " + std::to_string(max));
  return 0;
}

std::optional<std::string> Fields::StringOrNull(const char* name) {
  if (IsNull(name)) return std::nullopt;
  return String(name);
}

std::optional<uint64_t> Fields::BytesOrNull(const char* name) {
  if (IsNull(name)) return std::nullopt;
  return Bytes(name);
}

std::vector<std::string> Fields::Strings(const char* name) {
  const Napi::Value value = Get(name);
  std::vector<std::string> texts;
  const uint32_t length = value.IsArray() ? value.As<Napi::Array>().Length() : 0;
  for (uint32_t i = 0; i < length && length <= kMaxObjects; i++) {
    const Napi::Value element = ClearException(env_, value.As<Napi::Array>().Get(i));
    if (!element.IsString()) break;
    texts.push_back(element.As<Napi::String>().Utf8Value());
  }
  if (length == 0 || texts.size() != length) Expect(name, "an array of 1 to 4096 strings");
  return texts;
}

Napi::BigUint64Array Fields::Uint64s(const char* name) {
  const Napi::Value value = Get(name);
  if (value.IsTypedArray() &&
      value.As<Napi::TypedArray>().TypedArrayType() == napi_biguint64_array) {
    return value.As<Napi::BigUint64Array>();
  }
  Expect(name, "a BigUint64Array");
  return Napi::BigUint64Array();
}

std::vector<uint64_t> Fields::Integers(const char* name, uint64_t max, uint32_t max_count) {
  const Napi::Value value = Get(name);
  std::vector<uint64_t> numbers;
  const bool fits = value.IsArray() && value.As<Napi::Array>().Length() <= max_count;
  const uint32_t length = fits ? value.As<Napi::Array>().Length() : 0;
  for (uint32_t i = 0; i < length; i++) {
    const Napi::Value element = ClearException(env_, value.As<Napi::Array>().Get(i));
    const double number = element.IsNumber() ? element.As<Napi::Number>().DoubleValue() : -1;
    if (!(number >= 0 && number <= static_cast<double>(max) && std::trunc(number) == number)) break;
    numbers.push_back(static_cast<uint64_t>(number));
  }
  if (!fits || numbers.size() < length) {
    Reject(std::string(name) + " must be an array of at most " + std::to_string(max_count) +
           " integers from 0 to " + std::to_string(max));
  }
  return numbers;
}

bool Fields::IsNull(const char* name) { return Get(name).IsNull(); }

Fields Fields::Object(const char* name) { return Fields(Get(name), function_); }

std::vector<Fields> Fields::Objects(const char* name) {
  const Napi::Value value = Get(name);
  std::vector<Fields> objects;
  const uint32_t length = value.IsArray() ? value.As<Napi::Array>().Length() : 0;
  if (length == 0 || length > kMaxObjects) {
    Expect(name, "an array of 1 to 4096 objects");
    return objects;
  }
  for (uint32_t i = 0; i < length; i++) {
    const Napi::Value element = value.As<Napi::Array>().Get(i);
    objects.push_back(Fields(ClearException(env_, element), function_));
  }
  return objects;
}

void Fields::TakeProblem(const Fields& nested) {
  if (ok()) problem_ = nested.problem_;
}

void Fields::Expect(const char* name, const char* what) {
  Reject(std::string(name) + " must be " + what);
}

void Fields::Reject(const std::string& problem) {
  if (ok()) problem_ = problem;
}

Status Fields::TakeStatus() const { return Status::Errno(EINVAL, function_, "", problem_); }

Napi::Object Success(Napi::Env env) {
  Napi::Object object = Napi::Object::New(env);
  SetBoolean(&object, "ok", true);
  return object;
}

Napi::Value Failed(Napi::Env env, const Status& status) {
  const Failure& failure = status.failure();
  Napi::Object object = Napi::Object::New(env);
  SetBoolean(&object, "ok", false);
  object.Set("code", Napi::String::New(env, failure.code));
  object.Set("errno", Napi::Number::New(env, failure.error));
  object.Set("syscall", Napi::String::New(env, failure.syscall));
  object.Set("path", Napi::String::New(env, failure.path));
  object.Set("before", Napi::String::New(env, failure.before));
  object.Set("after", Napi::String::New(env, failure.after));
  return object;
}

void SetBigInt(Napi::Object* object, const char* name, uint64_t value) {
  object->Set(name, Napi::BigInt::New(object->Env(), value));
}

void SetNumber(Napi::Object* object, const char* name, uint64_t value) {
  object->Set(name, Napi::Number::New(object->Env(), static_cast<double>(value)));
}

void SetBoolean(Napi::Object* object, const char* name, bool value) {
  object->Set(name, Napi::Boolean::New(object->Env(), value));
}

Napi::Value ToValue(Napi::Env env, uint64_t value) { return Napi::BigInt::New(env, value); }

Napi::Value ToValue(Napi::Env env, bool value) { return Napi::Boolean::New(env, value); }

}  // namespace blockdelta
