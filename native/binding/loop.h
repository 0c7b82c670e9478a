// The addon's functions for loop and block devices; see src/native/addon.ts for their contracts.
#ifndef BLOCKDELTA_NATIVE_BINDING_LOOP_H_
#define BLOCKDELTA_NATIVE_BINDING_LOOP_H_

#include <napi.h>

namespace blockdelta {

Napi::Value LoopAttachBinding(const Napi::CallbackInfo& info);
Napi::Value LoopFindBinding(const Napi::CallbackInfo& info);
Napi::Value LoopListBinding(const Napi::CallbackInfo& info);
Napi::Value LoopDetachBinding(const Napi::CallbackInfo& info);
Napi::Value SetDeviceReadOnlyBinding(const Napi::CallbackInfo& info);
Napi::Value FlushBinding(const Napi::CallbackInfo& info);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_BINDING_LOOP_H_
