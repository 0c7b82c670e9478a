// The fields of a request that say how volumes are frozen or suspended meanwhile.
#ifndef BLOCKDELTA_NATIVE_BINDING_FREEZING_H_
#define BLOCKDELTA_NATIVE_BINDING_FREEZING_H_

#include "native/binding/values.h"
#include "native/device/freeze.h"

namespace blockdelta {

inline FreezeOptions ReadFreezing(Fields* request) {
  FreezeOptions options;
  options.guardian_socket = request->PathOrNull("guardianSocket");
  options.limit_ms = request->Bytes("freezeLimitMs");
  options.deadline_ms = request->BytesOrNull("deadlineMs");
  return options;
}

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_BINDING_FREEZING_H_
