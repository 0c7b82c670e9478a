// The addon's functions that walk thin mappings; see src/native/thin-addon.ts for their contracts.
#ifndef BLOCKDELTA_NATIVE_BINDING_THIN_DELTA_H_
#define BLOCKDELTA_NATIVE_BINDING_THIN_DELTA_H_

#include <napi.h>

#include "native/binding/values.h"
#include "native/thin/thin_scan.h"

namespace blockdelta {

Napi::Value ThinDeltaBinding(const Napi::CallbackInfo& info);
Napi::Value ThinKeepBaseBinding(const Napi::CallbackInfo& info);

// A ThinScanSource, but for its size.
ThinScanRequest ReadThinScan(Fields* source);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_BINDING_THIN_DELTA_H_
