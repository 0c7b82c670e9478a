// The little that the native tests need to be written as sentences: TEST, EXPECT, SKIP.
//
// A test is a function that runs to its end whatever its expectations come to. Prints every failed
// expectation with its place, and "N passed, N failed, N skipped" at the end.
#ifndef BLOCKDELTA_TEST_NATIVE_HARNESS_H_
#define BLOCKDELTA_TEST_NATIVE_HARNESS_H_

#include <iostream>
#include <sstream>
#include <string>

namespace blockdelta::test {

void Register(const char* sentence, void (*body)());
void Fail(const char* file, int line, const std::string& what);
void Skip(const std::string& reason);

// Random tests start from this: BLOCKDELTA_TEST_SEED; without it, what the test's sentence decides,
// or, in long runs, the clock. It is printed when the test fails.
uint64_t Seed();
// Random tests run longer: BLOCKDELTA_TEST_LONG=1.
bool IsLong();

struct Registration {
  Registration(const char* sentence, void (*body)()) { Register(sentence, body); }
};

template <typename Left, typename Right>
void ExpectEqual(const char* file, int line, const char* text, const Left& left,
                 const Right& right) {
  if (left == right) return;
  std::ostringstream what;
  what << text << ": " << left << " and " << right;
  Fail(file, line, what.str());
}

}  // namespace blockdelta::test

#define BLOCKDELTA_CONCAT2(a, b) a##b
#define BLOCKDELTA_CONCAT(a, b) BLOCKDELTA_CONCAT2(a, b)
#define TEST(sentence)                                                                     \
  static void BLOCKDELTA_CONCAT(Test, __LINE__)();                                         \
  static const ::blockdelta::test::Registration BLOCKDELTA_CONCAT(registration, __LINE__)( \
      sentence, BLOCKDELTA_CONCAT(Test, __LINE__));                                        \
  static void BLOCKDELTA_CONCAT(Test, __LINE__)()

// True if it holds, so that a test can stop where going on makes no sense.
#define EXPECT(condition) \
  ((condition) || (::blockdelta::test::Fail(__FILE__, __LINE__, #condition), false))
#define EXPECT_EQ(left, right) \
  ::blockdelta::test::ExpectEqual(__FILE__, __LINE__, #left " == " #right, left, right)
// Expects success of a Status or Result, and says what went wrong otherwise.
#define EXPECT_OK(result) \
  ((result).ok() ||       \
   (::blockdelta::test::Fail(__FILE__, __LINE__, ::blockdelta::test::MessageOf(result)), false))
#define EXPECT_CODE(result, name) EXPECT_EQ(::blockdelta::test::CodeOf(result), std::string(name))

#include "native/base/status.h"

namespace blockdelta::test {

inline std::string CodeOf(const Status& status) { return status.ok() ? "" : status.failure().code; }
template <typename T>
std::string CodeOf(const Result<T>& result) {
  return CodeOf(result.status());
}
inline std::string MessageOf(const Status& status) {
  return status.ok() ? "" : status.failure().message;
}
template <typename T>
std::string MessageOf(const Result<T>& result) {
  return MessageOf(result.status());
}

}  // namespace blockdelta::test

#endif  // BLOCKDELTA_TEST_NATIVE_HARNESS_H_
