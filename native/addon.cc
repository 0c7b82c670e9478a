// The addon. Contracts: src/driver/native/addon.ts.
#include <malloc.h>
#include <napi.h>

#include "native/binding/functions.h"

namespace {

// glibc keeps what a thread that ends has freed, 1 to 2 MiB. Node.js frees the isolate of a worker
// on its thread, whose own objects are destroyed after that. Takes about a millisecond.
struct TrimAtThreadEnd {
  ~TrimAtThreadEnd() {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
  }
};

Napi::Object Init(Napi::Env, Napi::Object exports) {
  thread_local TrimAtThreadEnd trim;
  static_cast<void>(&trim);
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
