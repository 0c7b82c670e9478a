// Opens metadata in the way that what it lies in needs.
#ifndef BLOCKDELTA_NATIVE_THIN_OPEN_SOURCE_H_
#define BLOCKDELTA_NATIVE_THIN_OPEN_SOURCE_H_

#include <memory>
#include <string>

#include "native/thin/block_source.h"

namespace blockdelta {

// A DirectSource of a block device, a FileSource of a regular file.
Result<std::unique_ptr<BlockSource>> OpenBlockSource(const std::string& path);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_OPEN_SOURCE_H_
