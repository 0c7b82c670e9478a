// The rule of what an extent says about its bytes.
#include "native/scan/extent.h"

#include <gtest/gtest.h>

namespace blockdelta {
namespace {

const char* ClassName(uint32_t flags) {
  switch (Classify(flags)) {
    case ExtentClass::kZero:
      return "zero";
    case ExtentClass::kOpaque:
      return "opaque";
    case ExtentClass::kData:
      return "data";
  }
  return "?";
}

struct Row {
  uint32_t flags;
  const char* kind;
};

TEST(ExtentTest, IsDataUnlessAFlagSaysOtherwise) {
  for (const Row& row : {
           Row{0x0, "data"}, Row{0x1, "data"},  // LAST
           Row{0x1000, "data"},                 // MERGED
           Row{0x2000, "data"},                 // SHARED
           Row{0x3001, "data"},                 // all three
           Row{0x800, "zero"},                  // UNWRITTEN
           Row{0x2801, "zero"},   // UNWRITTEN, shared: a btrfs clone of preallocated space
           Row{0x2, "opaque"},    // UNKNOWN
           Row{0x4, "opaque"},    // DELALLOC
           Row{0x8, "opaque"},    // ENCODED: compressed
           Row{0x80, "opaque"},   // DATA_ENCRYPTED
           Row{0x100, "opaque"},  // NOT_ALIGNED
           Row{0x200, "opaque"},  // DATA_INLINE
           Row{0x400, "opaque"},  // DATA_TAIL
           Row{0x301, "opaque"},  // a small btrfs file: address 0, whatever it holds
           Row{0x808, "opaque"},  // opaque wins over unwritten
           Row{0x802, "opaque"}, Row{0x4000, "data"},  // a flag of a later kernel
       }) {
    EXPECT_STREQ(ClassName(row.flags), row.kind) << "flags 0x" << std::hex << row.flags;
  }
}

}  // namespace
}  // namespace blockdelta
