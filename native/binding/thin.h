// Reads the part of a request that describes a scan of thin devices.
#ifndef BLOCKDELTA_NATIVE_BINDING_THIN_H_
#define BLOCKDELTA_NATIVE_BINDING_THIN_H_

#include "native/binding/values.h"
#include "native/thin/thin_scan.h"

namespace blockdelta {

// Reads every field of a ThinScanSource (src/native/thin-addon.ts) except sizeBytes.
ThinScanRequest ReadThinScan(Fields* source);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_BINDING_THIN_H_
