/**
 * Binds and unmounts single mounts by their mount id in mountinfo. A call never acts on another mount that has since appeared
 * at the same path, and never follows a symbolic link that has since been put in the path.
 *
 * All paths are resolved. A target is made or removed in the directory that its path led to when the call opened it. Knows
 * nothing of volumes.
 */
import { CsiError, SystemError } from '../../base/errors.js';
import { type MountEntry, mountsAt, readMountInfo } from '../../base/system/mountinfo.js';
import type { Look, LookRequest, SeenPath } from '../native/look-calls.js';
import type { NativeRunner } from '../native/pool.js';
import { assertEmpty, assertTargetFits, seePath, type TargetType } from './target.js';

export interface Bind extends LayerFlags {
  source: string;
  /** Exactly one of the two is not null: the mount id of a mounted file system, or the st_rdev of a device node. */
  sourceMountId: number | null;
  sourceDevice: number | null;
}

export interface LayerFlags {
  target: string;
  readOnly: boolean;
  /** Mount options. Options of the file system rather than of a single mount are ignored. */
  options: readonly string[];
}

/** MOUNT_ATTR_* of linux/mount.h. */
const ATIME_MASK = 0x70;
const ATTRIBUTES: Readonly<Record<string, { set: number; clear: number }>> = {
  ro: { set: 0x1, clear: 0 },
  // The kernel's default, as for mount(8).
  defaults: { set: 0, clear: 0 },
  atime: { set: 0, clear: ATIME_MASK },
  norelatime: { set: 0, clear: 0 },
  nostrictatime: { set: 0, clear: 0 },
  nosuid: { set: 0x2, clear: 0 },
  suid: { set: 0, clear: 0x2 },
  nodev: { set: 0x4, clear: 0 },
  dev: { set: 0, clear: 0x4 },
  noexec: { set: 0x8, clear: 0 },
  exec: { set: 0, clear: 0x8 },
  noatime: { set: 0x10, clear: ATIME_MASK },
  strictatime: { set: 0x20, clear: ATIME_MASK },
  relatime: { set: 0, clear: ATIME_MASK },
  nodiratime: { set: 0x80, clear: 0 },
  diratime: { set: 0, clear: 0x80 },
  nosymfollow: { set: 0x20_0000, clear: 0 },
  symfollow: { set: 0, clear: 0x20_0000 },
};

/** The last of several options that exclude one another counts. `rw` changes nothing: a read-only mount stays read-only. */
export function attributesOf({ readOnly, options }: Omit<LayerFlags, 'target'>): {
  set: number;
  clear: number;
} {
  let [set, clear] = [0, 0];
  for (const option of readOnly ? [...options, 'ro'] : options) {
    const wanted = ATTRIBUTES[option];
    if (wanted === undefined) continue;
    set = (set & ~wanted.clear) | wanted.set;
    clear |= wanted.clear;
  }
  return { set, clear };
}

/** Whether an option belongs to a mount rather than to its file system. `ro` and `rw` belong to both. */
export function isOfMount(option: string): boolean {
  return option === 'rw' || Object.hasOwn(ATTRIBUTES, option);
}

/** How often the top layer may change during an unmount before the unmount gives up. */
const MAX_CHANGES = 100;

/** Binds the source to an empty target that nothing is mounted on. The mount has its flags from its first moment. */
export async function bindLayer(native: NativeRunner, bind: Bind): Promise<void> {
  const { source, sourceMountId, sourceDevice, target } = bind;
  const attributes = attributesOf(bind);
  await refusing(`${source} cannot be bound to ${target}`, () =>
    native.run('bindMount', { source, sourceMountId, sourceDevice, target, ...attributes }),
  );
}

/** Sets the flags of this mount. FAILED_PRECONDITION if the mount is no longer the top layer. */
export async function setLayerFlags(native: NativeRunner, { mountId }: MountEntry, flags: LayerFlags): Promise<void> {
  const { target: path } = flags;
  await refusing(`${path} cannot be given its mount options`, () =>
    native.run('setMountAttributes', { path, mountId, ...attributesOf(flags) }),
  );
}

/** What unmounting has done. */
export interface Unmounted {
  /** There was a layer to unmount. */
  found: boolean;
  /** The mounts that are left, on this path and elsewhere. */
  mounts: readonly MountEntry[];
  /** The last look, if the caller has asked for looks and one was needed. */
  seen: Look | null;
}

/**
 * Unmounts the layers on the path, from the top down to the first layer that does not belong to the caller. FAILED_PRECONDITION
 * if a layer is busy or cannot be reached.
 *
 * @param before the current mounts, if the caller has just read them
 * @param look looks at the path among others; used in place of all mounts of the node
 */
export async function unmountLayers(
  native: NativeRunner,
  path: string,
  belongs: (entry: MountEntry) => boolean | Promise<boolean>,
  before?: readonly MountEntry[],
  look?: LookRequest,
): Promise<Unmounted> {
  const read = async (): Promise<Omit<Unmounted, 'found'>> => {
    const seen = look === undefined ? null : await native.run('look', look);
    return { seen, mounts: seen?.mounts ?? (await readMountInfo()) };
  };
  let found = false;
  let now = before === undefined ? await read() : { seen: null, mounts: before };
  for (let changes = 0; ; ) {
    const top = mountsAt(now.mounts, path).at(-1);
    if (top === undefined || !(await belongs(top))) return { found, ...now };
    try {
      const { seen } = await native.run('unmountLayer', { path, mountId: top.mountId, ...(look && { look }) });
      found = true;
      now = seen === null ? await read() : { seen, mounts: seen.mounts };
    } catch (thrown) {
      if (!(thrown instanceof SystemError)) throw thrown;
      changes += 1;
      // Another layer is on top by now, so `belongs` has to judge that layer.
      if (thrown.code === 'ESTALE' && changes < MAX_CHANGES) {
        now = await read();
        continue;
      }
      throw CsiError.failedPrecondition(
        `${path} cannot be unmounted: it is busy or cannot be reached; end what uses it and try again (${thrown.message})`,
        { cause: thrown },
      );
    }
  }
}

/**
 * Makes an empty directory or file to mount on. Accepts an empty one that already exists.
 *
 * @param seen what the caller has just seen at the path
 */
export async function makeTarget(native: NativeRunner, path: string, type: TargetType, seen?: SeenPath): Promise<void> {
  if (assertTargetFits(path, seen ?? (await seePath(native, path)), type)) return;
  const directory = type === 'directory';
  await refusing(`${path} cannot be made`, () => native.run('makeTarget', { path, directory }));
}

/** Removes an empty directory or file that nothing is mounted on, if there is one. Refuses to remove anything else. */
export async function removeTarget(native: NativeRunner, path: string, seen?: SeenPath): Promise<void> {
  if (!assertEmpty(path, seen ?? (await seePath(native, path)))) return;
  await refusing(`${path} cannot be removed`, () => native.run('removeTarget', { path }));
}

async function refusing(what: string, call: () => Promise<unknown>): Promise<void> {
  try {
    await call();
  } catch (thrown) {
    if (!(thrown instanceof SystemError)) throw thrown;
    throw CsiError.failedPrecondition(`${what} (${thrown.message})`, { cause: thrown });
  }
}
