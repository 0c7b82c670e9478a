/**
 * Thaws a file system that is frozen and no longer mounted anywhere.
 *
 * A freeze (FIFREEZE) holds a reference to the superblock. So the superblock outlives the last unmount, stays frozen, and holds
 * its device, on every kernel. No path leads to the file system, so the program that froze it cannot thaw it; e2fsck and a
 * detach find the device in use, and the next mount gets the frozen superblock, where the first writer hangs. A backup program
 * whose second hook is lost leaves a file system in this state, and so does a plugin that is killed with its guardian.
 *
 * The test costs nothing in the normal case: the device is held, and no mount namespace has it mounted. So a mount, an unmount
 * or a bind never thaws by itself, and a freeze stands as long as there is a path through which it can be lifted. Namespaces
 * without a process are not examined. In a PID namespace of its own, the plugin sees only its own mounts. There the plugin
 * relies on the propagation of its mounts, which each staging checks, and on the order of calls: whoever stages a volume for
 * the first time, unstages it or deletes it says that no workload uses the volume.
 *
 * The same holds for a thin volume. A device that was suspended together with its file system is another matter: resuming the
 * device ends that freeze. Knows nothing of volumes and pools.
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

/** The likely reason why a file system does not answer, for messages. */
export const FROZEN_BY_OTHERS = 'most likely another program, such as the hook of a backup, has frozen it';

/**
 * Thaws a file system that is frozen and mounted nowhere. Returns whether the device had one. The thawed file system releases
 * the device if no process has a file open in it.
 *
 * @param last a mount point that is about to go and so does not count
 */
export async function thawLeftFrozen(native: NativeRunner, devicePath: string, last?: string): Promise<boolean> {
  if (!(await isHeldExclusively(devicePath))) return false;
  const mountPoints = await mountPointsAnywhere(devicePath);
  if (mountPoints.some((mountPoint) => mountPoint !== last)) return false;
  return thawHeld(native, devicePath);
}

/**
 * Thaws the file system that holds the device, wherever it is mounted, through a mount that appears nowhere: the kernel lets
 * that mount share the superblock. Returns false if the file system was not frozen, or if something else holds the device.
 */
export async function thawHeld(native: NativeRunner, devicePath: string): Promise<boolean> {
  if (!(await isHeldExclusively(devicePath))) return false;
  const { rdev } = await stat(devicePath);
  const type = await recognizedFileSystem(devicePath);
  const sizeBytes = await deviceSizeBytes({ major: majorOf(rdev), minor: minorOf(rdev) });
  // If the holder releases the device at this moment, the kernel mounts the device anew.
  if (type === null || sizeBytes === null) return false;
  if ((await superblockObjection(native, type, devicePath, sizeBytes)) !== null) return false;
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
