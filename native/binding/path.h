// The addon's functions for mounts and the places they are on; see src/native/addon.ts for their
// contracts.
#ifndef BLOCKDELTA_NATIVE_BINDING_PATH_H_
#define BLOCKDELTA_NATIVE_BINDING_PATH_H_

#include <napi.h>

namespace blockdelta {

Napi::Value UnmountLayerBinding(const Napi::CallbackInfo& info);
Napi::Value BindMountBinding(const Napi::CallbackInfo& info);
Napi::Value SetMountAttributesBinding(const Napi::CallbackInfo& info);
Napi::Value MakeTargetBinding(const Napi::CallbackInfo& info);
Napi::Value RemoveTargetBinding(const Napi::CallbackInfo& info);
Napi::Value TryLockBinding(const Napi::CallbackInfo& info);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_BINDING_PATH_H_
