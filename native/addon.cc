// The addon. Contracts: src/driver/native/addon.ts.
#include <napi.h>

#include "native/binding/functions.h"

namespace {

Napi::Object Init(Napi::Env, Napi::Object exports) {
  blockdelta::ExportScan(&exports);
  blockdelta::ExportChangeList(&exports);
  blockdelta::ExportLoop(&exports);
  blockdelta::ExportFile(&exports);
  blockdelta::ExportMount(&exports);
  blockdelta::ExportSystem(&exports);
  blockdelta::ExportThin(&exports);
  blockdelta::ExportDm(&exports);
  return exports;
}

}  // namespace

NODE_API_MODULE(blockdelta, Init)
