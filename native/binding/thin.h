// The fields of thin devices that several functions of the addon read.
#ifndef BLOCKDELTA_NATIVE_BINDING_THIN_H_
#define BLOCKDELTA_NATIVE_BINDING_THIN_H_

#include "native/binding/values.h"
#include "native/thin/thin_scan.h"

namespace blockdelta {

// Reads a ThinDeviceRef.
ThinDeviceRef ReadThinDevice(const char* name, Fields* fields);
// Reads every field of a ThinScanSource (src/driver/native/thin-addon.ts) except sizeBytes.
ThinScanRequest ReadThinScan(Fields* source);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_BINDING_THIN_H_
