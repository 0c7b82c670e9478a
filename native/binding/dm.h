// The addon's functions for device-mapper devices and thin pools; see src/native/dm-addon.ts for
// their contracts.
#ifndef BLOCKDELTA_NATIVE_BINDING_DM_H_
#define BLOCKDELTA_NATIVE_BINDING_DM_H_

#include <napi.h>

namespace blockdelta {

Napi::Value DmVersionBinding(const Napi::CallbackInfo& info);
Napi::Value DmHasTargetBinding(const Napi::CallbackInfo& info);
Napi::Value DmFindBinding(const Napi::CallbackInfo& info);
Napi::Value DmListBinding(const Napi::CallbackInfo& info);
Napi::Value DmCreateBinding(const Napi::CallbackInfo& info);
Napi::Value DmReloadBinding(const Napi::CallbackInfo& info);
Napi::Value DmSuspendBinding(const Napi::CallbackInfo& info);
Napi::Value DmResumeBinding(const Napi::CallbackInfo& info);
Napi::Value DmRemoveBinding(const Napi::CallbackInfo& info);
Napi::Value DmWaitBinding(const Napi::CallbackInfo& info);
Napi::Value ThinPoolStatusBinding(const Napi::CallbackInfo& info);
Napi::Value ThinStatusBinding(const Napi::CallbackInfo& info);
Napi::Value ThinMessagesBinding(const Napi::CallbackInfo& info);
Napi::Value ThinCutBinding(const Napi::CallbackInfo& info);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_BINDING_DM_H_
