// Fuzzes what reads thin metadata, every changed block with its right checksum: what a checksum
// lets through must be found by the other checks.
#include "test/fuzz/thin_metadata_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  blockdelta::test::FuzzInput input(data, size);
  blockdelta::test::ThinMetadataFuzz(&input, true).Run();
  return 0;
}
