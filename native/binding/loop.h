// The addon's functions for loop and block devices and what is mounted from them; see
// src/native/addon.ts for their contracts.
#ifndef BLOCKDELTA_NATIVE_BINDING_LOOP_H_
#define BLOCKDELTA_NATIVE_BINDING_LOOP_H_

#include <napi.h>

namespace blockdelta {

Napi::Value LoopAttachBinding(const Napi::CallbackInfo& info);
Napi::Value LoopFindBinding(const Napi::CallbackInfo& info);
Napi::Value LoopListBinding(const Napi::CallbackInfo& info);
Napi::Value LoopDetachBinding(const Napi::CallbackInfo& info);
Napi::Value LoopResizeBinding(const Napi::CallbackInfo& info);
Napi::Value SetLoopDirectIoBinding(const Napi::CallbackInfo& info);
Napi::Value RefuseDiscardsBinding(const Napi::CallbackInfo& info);
Napi::Value EndUnsafeDirectIoBinding(const Napi::CallbackInfo& info);
Napi::Value SetDeviceReadOnlyBinding(const Napi::CallbackInfo& info);
Napi::Value FlushBinding(const Napi::CallbackInfo& info);
Napi::Value GrowFileSystemBinding(const Napi::CallbackInfo& info);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_BINDING_LOOP_H_
