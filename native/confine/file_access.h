// The files that a program may open.
#ifndef BLOCKDELTA_NATIVE_CONFINE_FILE_ACCESS_H_
#define BLOCKDELTA_NATIVE_CONFINE_FILE_ACCESS_H_

#include <string>
#include <vector>

#include "native/base/status.h"

namespace blockdelta {

struct FileAccess {
  // Files and devices to read.
  std::vector<std::string> reads;
  // Files and devices to read, write and truncate.
  std::vector<std::string> writes;
  // Directories in which to make and remove files and sockets.
  std::vector<std::string> places;
};

// Restricts this process, and the program that it executes, to these files and the files that every
// program needs (/usr, the loader's cache, /sys, a few devices): see landlock(7). Landlock version
// 4 also forbids TCP; version 6 also forbids signals to other processes and their abstract sockets.
// A rule is about the file that the path leads to now, even if the path leads elsewhere later.
// Files that are already open stay usable. Needs no_new_privs and no capability.
//
// Does nothing on a kernel without Landlock.
Status RestrictFiles(const FileAccess& access);

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_CONFINE_FILE_ACCESS_H_
