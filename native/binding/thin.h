// The addon's functions for thin metadata; see src/native/thin-addon.ts for their contracts.
#ifndef BLOCKDELTA_NATIVE_BINDING_THIN_H_
#define BLOCKDELTA_NATIVE_BINDING_THIN_H_

#include <napi.h>

namespace blockdelta {

Napi::Value ThinSuperblockBinding(const Napi::CallbackInfo& info);
Napi::Value ThinDevicesBinding(const Napi::CallbackInfo& info);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_BINDING_THIN_H_
