/**
 * Whether a mount that this process makes is seen by whoever asked for it.
 *
 * In a mount namespace of its own, as in a container, a mount reaches others only if the mount that it is
 * made on is shared with them (mount_namespaces(7); `shared:` in mountinfo). Otherwise every system call
 * succeeds, and the caller finds the empty directory below: a pod then writes to the node's root disk.
 * Knows nothing of volumes.
 */
import { readlink } from 'node:fs/promises';
import { dirname } from 'node:path';
import {
  type MountEntry,
  mountContaining,
  mountInfoOfProcess,
} from '../../base/system/mountinfo.js';

/** auto: where there is evidence of a mount namespace of our own; required: everywhere. */
export type PropagationMode = 'auto' | 'required' | 'off';

export interface Surroundings {
  /** The mounts of process 1; null: they cannot be read. */
  initMounts: readonly MountEntry[] | null;
  /** Process 1 is the machine's own, and not that of a container. */
  isInitialPidNamespace: boolean;
}

/** Inode of the initial PID namespace; a constant of the kernel (PROC_PID_INIT_INO). */
const INITIAL_PID_NAMESPACE = 'pid:[4026531836]';

/**
 * Why a mount at `path` would be seen in this mount namespace only, in the middle of a sentence; null if
 * others see it, or need not.
 *
 * @param path without symbolic links
 * @param mounts the current mounts
 */
export async function hiddenMountReason(
  path: string,
  mode: PropagationMode,
  mounts: readonly MountEntry[],
): Promise<string | null> {
  if (mode === 'off') return null;
  const parent = mountContaining(mounts, dirname(path));
  if (parent === null) return null;
  if (mode === 'auto' && (await sharesMachinesMounts())) return null;
  const around = mode === 'auto' ? await surroundings() : null;
  if (!isHidden(parent, mounts, around)) return null;
  return parent.peerGroup === null
    ? `the mount ${parent.mountPoint} is not shared (no shared: in mountinfo)`
    : `the mount ${parent.mountPoint} is shared inside the plugin's own mount namespace only`;
}

/** @param around null: whoever asks is in another mount namespace */
export function isHidden(
  parent: MountEntry,
  mounts: readonly MountEntry[],
  around: Surroundings | null,
): boolean {
  if (around === null) return parent.peerGroup === null;
  const { initMounts, isInitialPidNamespace } = around;
  // Ids of mounts are unique over all namespaces.
  const isOfInit = initMounts?.some(({ mountId }) => mountId === mounts[0]?.mountId) ?? false;
  if (isOfInit && isInitialPidNamespace) return false;
  if (isOfInit || initMounts === null) {
    // The container's process 1 knows no other mounts than we do. What is on the container's own root was
    // made by somebody inside it.
    return parent.peerGroup === null && parent.mountPoint !== '/';
  }
  // A service with a mount namespace of its own, or a container with the machine's processes. systemd makes
  // its services' mounts slaves of the machine's, and then shared among themselves.
  return !initMounts.some(({ peerGroup }) => peerGroup !== null && peerGroup === parent.peerGroup);
}

/** Whether this process is in the mount namespace of the machine's process 1; false also if that cannot be seen. */
async function sharesMachinesMounts(): Promise<boolean> {
  const namespaces = ['self/ns/pid', '1/ns/mnt', 'self/ns/mnt'];
  const [pid, theirs, ours] = await Promise.all(
    namespaces.map((each) => readlink(`/proc/${each}`).catch(() => each)),
  );
  return pid === INITIAL_PID_NAMESPACE && theirs === ours;
}

async function surroundings(): Promise<Surroundings> {
  const [initMounts, pidNamespace] = await Promise.all([
    mountInfoOfProcess('1').catch(() => null),
    readlink('/proc/self/ns/pid').catch(() => ''),
  ]);
  return { initMounts, isInitialPidNamespace: pidNamespace === INITIAL_PID_NAMESPACE };
}
