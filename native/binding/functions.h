// The functions of the addon, by the file that defines them.
//
// src/driver/native/*.ts documents their requests, results and failures.
#ifndef BLOCKDELTA_NATIVE_BINDING_FUNCTIONS_H_
#define BLOCKDELTA_NATIVE_BINDING_FUNCTIONS_H_

#include "native/binding/values.h"

namespace blockdelta {

using Binding = Napi::Value (*)(Fields* request);

template <Binding binding>
Napi::Value Call(const Napi::CallbackInfo& info) {
  Fields request(info[0], static_cast<const char*>(info.Data()));
  return binding(&request);
}

// Exports `binding` as function `name` of one argument, the request object. `name` is a literal.
template <Binding binding>
void Export(Napi::Object* exports, const char* name) {
  exports->Set(name,
               Napi::Function::New<Call<binding>>(exports->Env(), name, const_cast<char*>(name)));
}

void ExportScan(Napi::Object* exports);
// Stored change lists.
void ExportChangeList(Napi::Object* exports);
// Loop devices, block devices and the file systems mounted from them.
void ExportLoop(Napi::Object* exports);
// Volume and snapshot files.
void ExportFile(Napi::Object* exports);
// Mounts and their targets.
void ExportMount(Napi::Object* exports);
// File locks, and a timer that ends the process.
void ExportSystem(Napi::Object* exports);
// dm-thin metadata.
void ExportThin(Napi::Object* exports);
// Device-mapper devices and thin pools.
void ExportDm(Napi::Object* exports);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_BINDING_FUNCTIONS_H_
