/**
 * Whether the requester of a mount sees the mount that this process makes.
 *
 * If this process has a mount namespace of its own, as in a container, a mount reaches other namespaces only if its parent
 * mount is shared with them (mount_namespaces(7); `shared:` in mountinfo). Otherwise every system call succeeds, and the
 * requester finds the empty directory below the mount: a pod then writes to the node's root disk. Knows nothing of volumes.
 */
import { readlink } from 'node:fs/promises';
import { dirname } from 'node:path';
import { type MountEntry, mountContaining, mountInfoOfProcess } from '../../base/system/mountinfo.js';

/** When a mount must be shared. auto: if there is evidence of a mount namespace of our own; required: always. */
export type PropagationMode = 'auto' | 'required' | 'off';

export interface Surroundings {
  /** The mounts of process 1; null if they cannot be read. */
  initMounts: readonly MountEntry[] | null;
  /** Process 1 is the machine's own, and not that of a container. */
  isInitialPidNamespace: boolean;
}

/** Inode of the initial PID namespace; a constant of the kernel (PROC_PID_INIT_INO). */
const INITIAL_PID_NAMESPACE = 'pid:[4026531836]';

/**
 * The reason why a mount at `path` would be visible only in this mount namespace, as a clause for the middle of a sentence;
 * null if other namespaces see the mount, or need not see it.
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

/** @param around null if the requester is in another mount namespace */
export function isHidden(parent: MountEntry, mounts: readonly MountEntry[], around: Surroundings | null): boolean {
  if (around === null) return parent.peerGroup === null;
  const { initMounts, isInitialPidNamespace } = around;
  // Mount ids are unique across all namespaces.
  const isOfInit = initMounts?.some(({ mountId }) => mountId === mounts[0]?.mountId) ?? false;
  if (isOfInit && isInitialPidNamespace) return false;
  if (isOfInit || initMounts === null) {
    // The container's process 1 sees the same mounts as we do. Somebody inside the container has made whatever is on the
    // container's own root, and sees the mount.
    return parent.peerGroup === null && parent.mountPoint !== '/';
  }
  // This process is a service with a mount namespace of its own, or a container that has the machine's processes. systemd makes
  // the mounts of a service slaves of the machine's mounts, and then shares them within the service.
  return !initMounts.some(({ peerGroup }) => peerGroup !== null && peerGroup === parent.peerGroup);
}

/** Whether this process is in the mount namespace of the machine's process 1; false also if /proc does not show that. */
async function sharesMachinesMounts(): Promise<boolean> {
  const namespaces = ['self/ns/pid', '1/ns/mnt', 'self/ns/mnt'];
  const [pid, theirs, ours] = await Promise.all(namespaces.map((each) => readlink(`/proc/${each}`).catch(() => each)));
  return pid === INITIAL_PID_NAMESPACE && theirs === ours;
}

async function surroundings(): Promise<Surroundings> {
  const [initMounts, pidNamespace] = await Promise.all([
    mountInfoOfProcess('1').catch(() => null),
    readlink('/proc/self/ns/pid').catch(() => ''),
  ]);
  return { initMounts, isInitialPidNamespace: pidNamespace === INITIAL_PID_NAMESPACE };
}
