/**
 * A file system that is frozen and mounted nowhere any more, and its thaw.
 *
 * A freeze (FIFREEZE) holds a reference to the superblock: it outlives the last unmount, still frozen, and holds its
 * device, on every kernel. No path leads to it, so whoever froze it cannot thaw it; e2fsck and a detach find the device in
 * use, and the next mount gets this superblock, whose first writer hangs. Backup programs leave it so whose second hook is
 * lost, and a plugin that is killed with its guardian.
 *
 * The sign costs nothing while all is well: the device is held, and no mount namespace has it mounted. So a mount, an
 * unmount and a bind never thaw by themselves, and a freeze stands as long as there is a path to lift it by. Not looked at
 * are namespaces without a process. In a PID namespace of its own the plugin sees its own mounts alone; there it relies on
 * their propagation, which each staging checks, and on the order of calls: whoever stages a volume first, unstages or deletes
 * it says that no workload uses it.
 *
 * On a thin volume it is the same. A device that was suspended with its file system is another matter: resuming the device
 * ends that freeze. Knows nothing of volumes and pools.
 */
import { stat } from 'node:fs/promises';
import { CsiError, errorCode, messageOf } from '../../base/errors.js';
import { deviceSizeBytes } from '../../base/system/device-attributes.js';
import { majorOf, minorOf } from '../../base/system/mountinfo.js';
import type { NativeRunner } from '../native/pool.js';
import { isHeldExclusively, mountPointsAnywhere } from './device-holders.js';
import { mountOptions } from './filesystem.js';
import { isOfMount } from './layers.js';
import { recognizedFileSystem, superblockObjection } from './superblock.js';

/** Of a file system that does not answer, for messages. */
export const FROZEN_BY_OTHERS =
  'most likely another program, such as the hook of a backup, has frozen it';

/**
 * Whether there was one on the device. It is thawed then, and releases the device if no process has a file open in it.
 *
 * @param last a mount that is about to go does not count
 */
export async function thawLeftFrozen(
  native: NativeRunner,
  devicePath: string,
  last?: string,
): Promise<boolean> {
  if (!(await isHeldExclusively(devicePath))) return false;
  const mountPoints = await mountPointsAnywhere(devicePath);
  if (mountPoints.some((mountPoint) => mountPoint !== last)) return false;
  return thawHeld(native, devicePath);
}

/**
 * Thaws the file system that holds the device, wherever it is mounted. False: it was not frozen, or something else holds
 * the device. The kernel shares the superblock with a mount that appears nowhere.
 */
export async function thawHeld(native: NativeRunner, devicePath: string): Promise<boolean> {
  if (!(await isHeldExclusively(devicePath))) return false;
  const { rdev } = await stat(devicePath);
  const type = await recognizedFileSystem(devicePath);
  const sizeBytes = await deviceSizeBytes({ major: majorOf(rdev), minor: minorOf(rdev) });
  // If it is let go of at this moment, the kernel mounts it anew.
  if (type === null || sizeBytes === null) return false;
  if ((await superblockObjection(type, devicePath, sizeBytes)) !== null) return false;
  const ofFileSystem = mountOptions(type, [], true).filter((option) => !isOfMount(option));
  const options = ['ro', ...ofFileSystem];
  try {
    return (await native.run('thawDevice', { source: devicePath, fsType: type, options })).thawed;
  } catch (thrown) {
    if (errorCode(thrown) === 'EBUSY') return false;
    throw CsiError.failedPrecondition(
      `the ${type} file system that holds ${devicePath} cannot be thawed (${messageOf(thrown)}); on the host, mount the ` +
        'device, thaw it with fsfreeze -u, unmount it, and try again',
      { cause: thrown },
    );
  }
}
