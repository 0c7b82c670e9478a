// Reads the parts of requests that several files of this directory use. Each reader is defined in
// the file that handles its kind of request.
#ifndef BLOCKDELTA_NATIVE_BINDING_REQUESTS_H_
#define BLOCKDELTA_NATIVE_BINDING_REQUESTS_H_

#include "native/binding/values.h"
#include "native/device/freeze.h"
#include "native/scan/change_list_union.h"
#include "native/scan/snapshot_file.h"
#include "native/thin/thin_scan.h"

namespace blockdelta {

SnapshotIdentity ReadIdentity(const char* name, Fields* source);
// Reads source 'lists' of fillMetadata.
ChangeListRequest ReadChangeLists(Fields* source);
ThinDeviceRef ReadThinDevice(const char* name, Fields* fields);
// Reads every field of a ThinScanSource (src/driver/native/thin-addon.ts) but kind and sizeBytes.
ThinScanRequest ReadThinScan(Fields* source);
// Reads how volumes are frozen or suspended during the request.
FreezeOptions ReadFreezing(Fields* request);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_BINDING_REQUESTS_H_
