/**
 * What the addon does to mounts and to the places they are on. See addon.ts for the conventions.
 */
import type { NativeResult } from './addon.js';

/** Mounts on this node. Paths are resolved ones: ELOOP if a symbolic link has come in the way since. */
export interface MountAddon {
  /**
   * Unmounts the top layer on a path if mountinfo calls it by this number. `unmounted` false: nothing
   * is there. ESTALE if another layer is on top, EBUSY if it is in use. Nothing else is ever unmounted,
   * whoever mounts what at the same time. Waits until the file system has been written back.
   */
  unmountLayer(request: { path: string; mountId: number }): NativeResult<{ unmounted: boolean }>;
  /**
   * Binds a mounted file system (`sourceMountId`) or a device node (`sourceDevice`, its st_rdev) to an
   * empty directory or file, with MOUNT_ATTR_* `set` and `clear`ed from the first moment on. ESTALE if
   * the source is another one, EBUSY if something is mounted on the target.
   */
  bindMount(request: {
    source: string;
    sourceMountId: number | null;
    sourceDevice: number | null;
    target: string;
    set: number;
    clear: number;
  }): NativeResult<object>;
  /** Of the top layer on a path; ESTALE if mountinfo does not call it by this number. */
  setMountAttributes(request: {
    path: string;
    mountId: number;
    set: number;
    clear: number;
  }): NativeResult<object>;
  /** A directory (mode 0750) or an empty file (0640). `made` false: something has that name already. */
  makeTarget(request: { path: string; directory: boolean }): NativeResult<{ made: boolean }>;
  /**
   * Removes an empty directory or regular file. `removed` false: there is none. ENOTEMPTY for anything
   * else, EBUSY for a mount point.
   */
  removeTarget(request: { path: string }): NativeResult<{ removed: boolean }>;
  /** An exclusive flock of an open file of this process, without waiting; it goes when that is closed. */
  tryLock(request: { descriptor: number }): NativeResult<{ locked: boolean }>;
}
