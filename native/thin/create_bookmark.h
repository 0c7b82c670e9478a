// Creates the bookmark of a snapshot that is about to be deleted, for later deltas.
#ifndef BLOCKDELTA_NATIVE_THIN_CREATE_BOOKMARK_H_
#define BLOCKDELTA_NATIVE_THIN_CREATE_BOOKMARK_H_

#include <cstdint>
#include <string>

#include "native/thin/bookmark.h"
#include "native/thin/thin_scan.h"

namespace blockdelta {

struct BookmarkRequest {
  std::string metadata;
  uint64_t superblock;
  ThinDeviceRef device;
  // Size of the volume; mappings beyond it are ignored.
  uint64_t size_bytes;
  // Both paths are in one directory.
  std::string temporary_path;
  std::string path;
};

struct WrittenBookmark {
  uint64_t file_bytes;
  BookmarkInfo info;
};

// The file is durable when this returns. An existing bookmark is verified and returned instead; a
// left-over temporary file is replaced. EINVAL if the snapshot was written to; SCAN_UNSUPPORTED if
// its creation time exceeds the times of mappings; the failures of a scan.
Result<WrittenBookmark> CreateBookmark(const BookmarkRequest& request);

// Reads a bookmark in full. THIN_METADATA_INVALID if it is damaged; errnos.
Result<WrittenBookmark> VerifyBookmark(const std::string& path);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_THIN_CREATE_BOOKMARK_H_
