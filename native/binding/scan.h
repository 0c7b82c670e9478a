// The addon's function for scans; see src/native/addon.ts for its contract.
#ifndef BLOCKDELTA_NATIVE_BINDING_SCAN_H_
#define BLOCKDELTA_NATIVE_BINDING_SCAN_H_

#include <napi.h>

namespace blockdelta {

Napi::Value FillMetadataBinding(const Napi::CallbackInfo& info);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_BINDING_SCAN_H_
