// What most tests need: assertions about Status and Result, and changed copies.
#ifndef BLOCKDELTA_TEST_NATIVE_STATUS_ASSERTIONS_H_
#define BLOCKDELTA_TEST_NATIVE_STATUS_ASSERTIONS_H_

#include <gtest/gtest.h>

#include <string>

#include "native/base/status.h"

namespace blockdelta::test {

inline testing::AssertionResult IsOk(const Status& status) {
  if (status.ok()) return testing::AssertionSuccess();
  const Failure& failure = status.failure();
  return testing::AssertionFailure() << failure.code << ": " << failure.Message();
}
template <typename T>
testing::AssertionResult IsOk(const Result<T>& result) {
  return IsOk(result.status());
}

// Empty if it succeeded.
inline std::string CodeOf(const Status& status) { return status.ok() ? "" : status.failure().code; }
template <typename T>
std::string CodeOf(const Result<T>& result) {
  return CodeOf(result.status());
}

// Empty if it succeeded.
inline std::string MessageOf(const Status& status) {
  return status.ok() ? "" : status.failure().Message();
}
template <typename T>
std::string MessageOf(const Result<T>& result) {
  return MessageOf(result.status());
}

// The value; without one, fails the test and gives an empty one.
template <typename T>
T ValueOf(Result<T> result) {
  EXPECT_TRUE(IsOk(result));
  return result.ok() ? std::move(*result) : T();
}

// A copy with one thing changed.
template <typename T, typename Change>
T With(T value, const Change& change) {
  change(&value);
  return value;
}

}  // namespace blockdelta::test

#define EXPECT_OK(expression) EXPECT_TRUE(::blockdelta::test::IsOk(expression))
#define ASSERT_OK(expression) ASSERT_TRUE(::blockdelta::test::IsOk(expression))
// Declares `name` as the value of a Result, or ends the test function without one.
#define ASSERT_VALUE(name, ...)         \
  auto name##_or_failure = __VA_ARGS__; \
  ASSERT_OK(name##_or_failure);         \
  auto& name = *name##_or_failure
#define EXPECT_CODE(expression, code) EXPECT_EQ(::blockdelta::test::CodeOf(expression), code)

#endif  // BLOCKDELTA_TEST_NATIVE_STATUS_ASSERTIONS_H_
