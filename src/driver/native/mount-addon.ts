/** The mount part of the addon's contract; conventions as in addon.ts. */
import type { NativeResult } from '../../base/system/native-result.js';

/** A mount as statmount(2) shows it; the fields have the meaning of those of mountinfo. */
export interface MountRecord {
  mountId: number;
  parentId: number;
  major: number;
  minor: number;
  root: string;
  mountPoint: string;
  /** MOUNT_ATTR_* of linux/mount.h. */
  attributes: number;
  /** 0 if the mount is in no peer group, or no slave of one. */
  peerGroup: number;
  masterGroup: number;
  fsType: string;
  source: string;
  /** MS_RDONLY, MS_SYNCHRONOUS, MS_DIRSYNC and MS_LAZYTIME. */
  superFlags: number;
  /** The other options of the file system, separated by commas, without those of a security module. */
  superOptions: string;
}

/** Mounts on this node. Paths are resolved: ELOOP if a path contains a symbolic link. */
export interface MountAddon {
  /**
   * Mounts the file system of a block device on a directory that nothing is mounted on: fsopen(2), fsconfig(2), fsmount(2),
   * move_mount(2). `options` are those of the file system and its superblock, as `name` or `name=value`, with `ro` or `rw`
   * among them; `set` has the MOUNT_ATTR_* flags of the mount. ELOOP if the target contains a symbolic link, EBUSY if something
   * is mounted on it; otherwise the errno of the step that failed, with the kernel's message, which may contain options.
   * Returns after the kernel has replayed the journal, which takes minutes.
   */
  mountFileSystem(request: {
    source: string;
    fsType: string;
    options: string[];
    set: number;
    target: string;
  }): NativeResult<object>;
  /**
   * FITHAW of the file system that holds a block device, mounted or not, completed even if this process is killed. `options`
   * are those of the file system and contain `ro`; the call also tries `rw` in its place. `thawed` is false if the file system
   * was not frozen. EBUSY if something else holds the device. If nothing holds the device, the call mounts it anew, read-only
   * and for a moment, so the caller checks beforehand that something holds the device.
   */
  thawDevice(request: { source: string; fsType: string; options: string[] }): NativeResult<{ thawed: boolean }>;
  /**
   * The mounts of file systems with one of these st_dev, all of btrfs, and those that are visible at the paths and on the way
   * to them, in the order of mountinfo. The time hardly depends on the other mounts of the node. The parents of a path have no
   * symbolic links, and the path may not exist. Null if the kernel cannot tell, as before Linux 6.15: then only mountinfo does.
   * Call it on one thread, which remembers the ids of the node's mounts.
   */
  mountsAround(request: { paths: string[]; devices: number[] }): NativeResult<{ mounts: MountRecord[] | null }>;
  /**
   * Unmounts the top layer on a path if it has this mount id in mountinfo. `unmounted` is false if nothing is mounted there.
   * ESTALE if another layer is on top, EBUSY if the mount is in use. Never unmounts another mount, whatever other processes
   * mount concurrently. Returns after the file system is written back.
   */
  unmountLayer(request: { path: string; mountId: number }): NativeResult<{ unmounted: boolean }>;
  /**
   * Binds a mounted file system (`sourceMountId`) or a device node (`sourceDevice`, its st_rdev) to
   * an empty directory or file. The MOUNT_ATTR_* flags in `set` and `clear` apply before the mount
   * becomes visible. ESTALE if the source has another identity, EBUSY if something is mounted on
   * the target.
   */
  bindMount(request: {
    source: string;
    sourceMountId: number | null;
    sourceDevice: number | null;
    target: string;
    set: number;
    clear: number;
  }): NativeResult<object>;
  /**
   * mount_setattr(2) on the top layer of a path; ESTALE unless it has this mount id in mountinfo.
   */
  setMountAttributes(request: { path: string; mountId: number; set: number; clear: number }): NativeResult<object>;
  /** Creates a directory (mode 0750) or an empty file (0640). `made` is false if the path exists. */
  makeTarget(request: { path: string; directory: boolean }): NativeResult<{ made: boolean }>;
  /**
   * Removes an empty directory or regular file. `removed` is false if the path does not exist. ENOTEMPTY for anything else,
   * EBUSY for a mount point.
   */
  removeTarget(request: { path: string }): NativeResult<{ removed: boolean }>;
}
