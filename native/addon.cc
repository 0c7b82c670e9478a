// The entry point of the addon. src/driver/native/addon.ts has the contracts.
#include <malloc.h>
#include <napi.h>

#include "native/binding/functions.h"

namespace {

// glibc keeps the 1 to 2 MiB that an ending thread has freed. Node.js frees a worker's isolate on
// its thread, before that thread's thread_local objects. The trim takes about a millisecond.
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
