// Fuzzes what reads thin metadata, checksums as the changes to an image leave them: nothing changed
// is believed.
#include "test/fuzz/thin_metadata_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  blockdelta::test::FuzzInput input(data, size);
  blockdelta::test::ThinMetadataFuzz(&input, false).Run();
  return 0;
}
