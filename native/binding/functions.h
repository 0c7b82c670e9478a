// The addon's functions for volume and snapshot files; see src/native/addon.ts for their contracts.
#ifndef BLOCKDELTA_NATIVE_BINDING_FILE_H_
#define BLOCKDELTA_NATIVE_BINDING_FILE_H_

#include <napi.h>

namespace blockdelta {

Napi::Value ProbeReflinkBinding(const Napi::CallbackInfo& info);
Napi::Value CreateSparseFileBinding(const Napi::CallbackInfo& info);
Napi::Value CloneFileBinding(const Napi::CallbackInfo& info);
Napi::Value GrowFileBinding(const Napi::CallbackInfo& info);
Napi::Value AllocateFileBinding(const Napi::CallbackInfo& info);
Napi::Value CloneVolumeBinding(const Napi::CallbackInfo& info);
Napi::Value CutSnapshotsBinding(const Napi::CallbackInfo& info);
Napi::Value SetImmutableBinding(const Napi::CallbackInfo& info);
Napi::Value RemoveFileBinding(const Napi::CallbackInfo& info);
Napi::Value FileStateBinding(const Napi::CallbackInfo& info);
Napi::Value ThawBinding(const Napi::CallbackInfo& info);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_BINDING_FILE_H_
