// The parts of requests that several files of this directory read; each is defined where its kind
// of request is.
#ifndef BLOCKDELTA_NATIVE_BINDING_REQUESTS_H_
#define BLOCKDELTA_NATIVE_BINDING_REQUESTS_H_

#include "native/binding/values.h"
#include "native/device/freeze.h"
#include "native/scan/change_list_union.h"
#include "native/scan/snapshot_file.h"
#include "native/thin/thin_scan.h"

namespace blockdelta {

SnapshotIdentity ReadIdentity(const char* name, Fields* source);
// Source 'lists' of fillMetadata.
ChangeListRequest ReadChangeLists(Fields* source);
// A ThinDeviceRef.
ThinDeviceRef ReadThinDevice(const char* name, Fields* fields);
// Every field of a ThinScanSource (src/driver/native/thin-addon.ts) except sizeBytes.
ThinScanRequest ReadThinScan(Fields* source);
// How volumes are frozen or suspended meanwhile.
FreezeOptions ReadFreezing(Fields* request);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_BINDING_REQUESTS_H_
