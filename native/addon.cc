// The addon's export table. Contracts: src/driver/native/addon.ts.
#include <napi.h>

#include "native/binding/functions.h"

namespace blockdelta {
namespace {

using Binding = Napi::Value (*)(const Napi::CallbackInfo&);

template <Binding binding>
void Export(Napi::Object exports, const char* name) {
  exports.Set(name, Napi::Function::New<binding>(exports.Env(), name));
}

Napi::Object Init(Napi::Env, Napi::Object exports) {
  Export<FillMetadataBinding>(exports, "fillMetadata");
  Export<LoopAttachBinding>(exports, "loopAttach");
  Export<LoopFindBinding>(exports, "loopFind");
  Export<BuildChangeListBinding>(exports, "buildChangeList");
  Export<BuildThinListBinding>(exports, "buildThinList");
  Export<ChangeListHeadBinding>(exports, "changeListHead");
  Export<JoinChangeListsBinding>(exports, "joinChangeLists");
  Export<VerifyChangeListsBinding>(exports, "verifyChangeLists");
  Export<LoopListBinding>(exports, "loopList");
  Export<LoopDetachBinding>(exports, "loopDetach");
  Export<LoopResizeBinding>(exports, "loopResize");
  Export<SetLoopDirectIoBinding>(exports, "setLoopDirectIo");
  Export<RefuseDiscardsBinding>(exports, "refuseDiscards");
  Export<EndUnsafeDirectIoBinding>(exports, "endUnsafeDirectIo");
  Export<SetDeviceReadOnlyBinding>(exports, "setDeviceReadOnly");
  Export<ProbeReflinkBinding>(exports, "probeReflink");
  Export<CreateSparseFileBinding>(exports, "createSparseFile");
  Export<CloneFileBinding>(exports, "cloneFile");
  Export<CountExtentsBinding>(exports, "countExtents");
  Export<GrowFileBinding>(exports, "growFile");
  Export<AllocateFileBinding>(exports, "allocateFile");
  Export<CloneVolumeBinding>(exports, "cloneVolume");
  Export<TakeSnapshotsBinding>(exports, "takeSnapshots");
  Export<MakeSubvolumeBinding>(exports, "makeSubvolume");
  Export<RemoveSubvolumeCopyBinding>(exports, "removeSubvolumeCopy");
  Export<RemoveFileBinding>(exports, "removeFile");
  Export<FileStateBinding>(exports, "fileState");
  Export<OpenDirectoriesBinding>(exports, "openDirectories");
  Export<ListDirectoryBinding>(exports, "listDirectory");
  Export<ThawBinding>(exports, "thaw");
  Export<FlushBinding>(exports, "flush");
  Export<GrowFileSystemBinding>(exports, "growFileSystem");
  Export<MountFileSystemBinding>(exports, "mountFileSystem");
  Export<ThawDeviceBinding>(exports, "thawDevice");
  Export<UnmountLayerBinding>(exports, "unmountLayer");
  Export<BindMountBinding>(exports, "bindMount");
  Export<SetMountAttributesBinding>(exports, "setMountAttributes");
  Export<MakeTargetBinding>(exports, "makeTarget");
  Export<RemoveTargetBinding>(exports, "removeTarget");
  Export<TryLockBinding>(exports, "tryLock");
  Export<StartKillTimerBinding>(exports, "startKillTimer");
  Export<StopKillTimerBinding>(exports, "stopKillTimer");
  Export<ThinSuperblockBinding>(exports, "thinSuperblock");
  Export<ThinDevicesBinding>(exports, "thinDevices");
  Export<ThinDeltaBinding>(exports, "thinDelta");
  Export<CreateThinBookmarkBinding>(exports, "createThinBookmark");
  Export<VerifyThinBookmarkBinding>(exports, "verifyThinBookmark");
  Export<DmVersionBinding>(exports, "dmVersion");
  Export<DmHasTargetBinding>(exports, "dmHasTarget");
  Export<DmFindBinding>(exports, "dmFind");
  Export<DmListBinding>(exports, "dmList");
  Export<DmCreateBinding>(exports, "dmCreate");
  Export<DmReloadBinding>(exports, "dmReload");
  Export<DmSuspendBinding>(exports, "dmSuspend");
  Export<DmResumeBinding>(exports, "dmResume");
  Export<DmRemoveBinding>(exports, "dmRemove");
  Export<DmWaitBinding>(exports, "dmWait");
  Export<ThinPoolStatusBinding>(exports, "thinPoolStatus");
  Export<ThinStatusBinding>(exports, "thinStatus");
  Export<ThinMessagesBinding>(exports, "thinMessages");
  Export<TakeThinSnapshotsBinding>(exports, "takeThinSnapshots");
  return exports;
}

}  // namespace
}  // namespace blockdelta

using blockdelta::Init;
NODE_API_MODULE(blockdelta, Init)
