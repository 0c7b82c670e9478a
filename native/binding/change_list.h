// The fields of change lists that several functions of the addon read.
#ifndef BLOCKDELTA_NATIVE_BINDING_CHANGE_LIST_H_
#define BLOCKDELTA_NATIVE_BINDING_CHANGE_LIST_H_

#include "native/binding/values.h"
#include "native/scan/change_list_union.h"
#include "native/scan/snapshot_file.h"

namespace blockdelta {

SnapshotIdentity ReadIdentity(const char* name, Fields* source);
// Source 'lists' of fillMetadata.
ChangeListRequest ReadChangeLists(Fields* source);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_BINDING_CHANGE_LIST_H_
