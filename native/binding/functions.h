// The functions of the addon: one declaration each, by the file that defines it.
//
// src/driver/native/*.ts documents their requests, results and failures.
#ifndef BLOCKDELTA_NATIVE_BINDING_FUNCTIONS_H_
#define BLOCKDELTA_NATIVE_BINDING_FUNCTIONS_H_

#include <napi.h>

namespace blockdelta {

// scan.cc
Napi::Value FillMetadataBinding(const Napi::CallbackInfo& info);

// change_list.cc: stored change lists.
Napi::Value BuildChangeListBinding(const Napi::CallbackInfo& info);
Napi::Value BuildThinListBinding(const Napi::CallbackInfo& info);
Napi::Value ChangeListHeadBinding(const Napi::CallbackInfo& info);
Napi::Value JoinChangeListsBinding(const Napi::CallbackInfo& info);
Napi::Value VerifyChangeListsBinding(const Napi::CallbackInfo& info);

// loop.cc: loop devices, block devices and the file systems mounted from them.
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

// file.cc: volume and snapshot files.
Napi::Value ProbeReflinkBinding(const Napi::CallbackInfo& info);
Napi::Value CreateSparseFileBinding(const Napi::CallbackInfo& info);
Napi::Value CloneFileBinding(const Napi::CallbackInfo& info);
Napi::Value GrowFileBinding(const Napi::CallbackInfo& info);
Napi::Value CountExtentsBinding(const Napi::CallbackInfo& info);
Napi::Value AllocateFileBinding(const Napi::CallbackInfo& info);
Napi::Value CloneVolumeBinding(const Napi::CallbackInfo& info);
Napi::Value TakeSnapshotsBinding(const Napi::CallbackInfo& info);
Napi::Value MakeSubvolumeBinding(const Napi::CallbackInfo& info);
Napi::Value RemoveSubvolumeCopyBinding(const Napi::CallbackInfo& info);
Napi::Value RemoveFileBinding(const Napi::CallbackInfo& info);
Napi::Value FileStateBinding(const Napi::CallbackInfo& info);
Napi::Value OpenDirectoriesBinding(const Napi::CallbackInfo& info);
Napi::Value ListDirectoryBinding(const Napi::CallbackInfo& info);
Napi::Value ThawBinding(const Napi::CallbackInfo& info);

// mount.cc: mounts and their targets.
Napi::Value MountFileSystemBinding(const Napi::CallbackInfo& info);
Napi::Value ThawDeviceBinding(const Napi::CallbackInfo& info);
Napi::Value UnmountLayerBinding(const Napi::CallbackInfo& info);
Napi::Value BindMountBinding(const Napi::CallbackInfo& info);
Napi::Value SetMountAttributesBinding(const Napi::CallbackInfo& info);
Napi::Value MakeTargetBinding(const Napi::CallbackInfo& info);
Napi::Value RemoveTargetBinding(const Napi::CallbackInfo& info);

// system.cc: file locks, and a timer that ends the process.
Napi::Value TryLockBinding(const Napi::CallbackInfo& info);
Napi::Value StartKillTimerBinding(const Napi::CallbackInfo& info);
Napi::Value StopKillTimerBinding(const Napi::CallbackInfo& info);

// thin.cc: dm-thin metadata.
Napi::Value ThinSuperblockBinding(const Napi::CallbackInfo& info);
Napi::Value ThinDevicesBinding(const Napi::CallbackInfo& info);
Napi::Value ThinDeltaBinding(const Napi::CallbackInfo& info);
Napi::Value CreateThinBookmarkBinding(const Napi::CallbackInfo& info);
Napi::Value VerifyThinBookmarkBinding(const Napi::CallbackInfo& info);

// dm.cc: device-mapper devices and thin pools.
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
Napi::Value TakeThinSnapshotsBinding(const Napi::CallbackInfo& info);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_BINDING_FUNCTIONS_H_
