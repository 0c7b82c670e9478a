# Sourced, not called: makes this machine ready for scripts/run-in-guest.
# shellcheck shell=bash

# guest_setup PROGRAM=PACKAGE...: installs what is missing for the guest, and of the programs named, if it
# may, and fetches the guest's kernel. Returns 1, with the reason in `reason`, where there can be no guest.
guest_setup() {
  local -A packages=(
    [qemu-system-x86_64]=qemu-system-x86 [busybox]=busybox-static [depmod]=kmod [cpio]=cpio
    [xz]=xz-utils [zstd]=zstd [mkfs.xfs]=xfsprogs [mkfs.ext4]=e2fsprogs
  )
  local wish program missing=()
  for wish in "$@"; do packages[${wish%%=*}]=${wish#*=}; done
  if [ "$(uname -m)" != x86_64 ]; then
    reason="the guest is an x86-64 one, this machine is not"
    return 1
  fi
  for program in "${!packages[@]}"; do
    command -v "$program" >/dev/null || missing+=("${packages[$program]}")
  done
  if [ "${#missing[@]}" -gt 0 ]; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
      reason="install these packages as root: ${missing[*]}"
      return 1
    fi
    echo "installing Debian packages: ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    # apt-get fails when another one runs, such as that of a second test run.
    local lock=(flock /run/lock/blockdelta-apt.lock)
    if ! { "${lock[@]}" apt-get update -qq && "${lock[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >/dev/null 2>&1; then
      reason="apt-get could not install ${missing[*]}"
      return 1
    fi
  fi
  reason=$(scripts/run-in-guest --fetch 2>&1) && return
  # A machine that was never updated knows no kernel package.
  [ "$(id -u)" = 0 ] && flock /run/lock/blockdelta-apt.lock apt-get update -qq >/dev/null 2>&1
  reason=$(scripts/run-in-guest --fetch 2>&1) && return
  reason="no kernel for it: ${reason##*$'\n'}"
  return 1
}

# guest_unpack PACKAGE...: fetches Debian packages that this machine does not have, with what they need, and
# unpacks them (installs nothing: some would start a service here) for guests that need them. Says where;
# nothing, if they cannot be had.
guest_unpack() {
  local place=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/blockdelta/guest/unpacked-$(IFS=-; echo "$*") work deb
  if [ ! -e "$place/ready" ]; then
    command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] || return 0
    mkdir -p "${place%/*}"
    work=$(mktemp -d "$place.XXXXXX")
    mkdir -p "$work/debs/partial"
    apt-get install -y -qq --no-install-recommends --download-only --reinstall \
      -o Dir::Cache::archives="$work/debs" -o APT::Sandbox::User=root "$@" >/dev/null 2>&1 || { rm -rf "$work"; return 0; }
    for deb in "$work"/debs/*.deb; do dpkg -x "$deb" "$work/root"; done
    rm -rf "$work/debs" "$work/root/usr/share"
    touch "$work/ready"
    mv -T "$work" "$place" 2>/dev/null || rm -rf "$work"
  fi
  echo "$place/root"
}
