# Sourced, not called: compiles the native core without Node.js, under address and undefined-behaviour
# sanitizers, for scripts/test-native and scripts/fuzz; for arm64, with the one of the two that runs in
# an emulator, if the caller has set `arch=arm64`. Sets `compiler`, `flags`, and `out`, the directory of
# objects and programs.
# shellcheck shell=bash

flags=(-std=c++17 -g -O1 -fno-exceptions -fno-omit-frame-pointer -Wall -Wextra -Werror -I. -pthread
  -D_FILE_OFFSET_BITS=64 -fno-sanitize-recover=undefined)
if [ "${arch:-}" = arm64 ]; then
  compiler=aarch64-linux-gnu-g++
  flags+=(-fsanitize=undefined -Wno-maybe-uninitialized)
elif command -v clang++ >/dev/null; then
  compiler=clang++
  flags+=(-fsanitize=address,undefined)
else
  # g++ takes moved optionals for uninitialized ones when sanitizers are on.
  compiler=g++
  flags+=(-fsanitize=address,undefined -Wno-maybe-uninitialized)
fi
out=.native-build/$compiler
mkdir -p "$out"

# compile KIND FLAG... -- SOURCE...: makes the objects of one kind, those that are out of date, and
# leaves the names of all of them in `objects`.
compile() {
  local kind=$1 extra=() todo=() source object newest
  shift
  while [ "$1" != -- ]; do extra+=("$1"); shift; done
  shift
  newest=$(ls -t native/*/*.h test/native/*.h test/fuzz/*.h scripts/native-build.sh 2>/dev/null | head -n 1)
  objects=()
  for source in "$@"; do
    object=$out/$kind-${source//\//-}.o
    objects+=("$object")
    if [ "$object" -ot "$source" ] || [ "$object" -ot "$newest" ]; then todo+=("$object" "$source"); fi
  done
  [ "${#todo[@]}" = 0 ] && return
  printf '%s\0' "${todo[@]}" |
    xargs -0 -n 2 -P "$(nproc)" "$compiler" "${flags[@]}" "${extra[@]}" -c -o
}
