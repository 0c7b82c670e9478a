/**
 * Gives the btrfs on a copied device an fsid of its own.
 *
 * btrfs takes two devices with the same fsid for one file system. Kernels before 6.7 may then mount the other device, or
 * refuse; later kernels make up an id that lasts as long as the mount. So a copy gets an fsid of its own before its first
 * mount, by metadata_uuid (Linux 5.0), which rewrites only the superblocks. Repeating the change does nothing.
 *
 * Observed with btrfs-progs 6.2: a change that is stopped half way leaves a device that neither btrfstune nor newer kernels
 * accept, so btrfstune continues if the plugin is killed. btrfstune opens its device without O_EXCL and sees only the mounts of
 * its own namespace, so the plugin locks and checks the device beforehand. If the log of a file system was not replayed,
 * btrfstune destroys the file system. So a mount replays the log first, in a mount namespace of its own that ends with the
 * command. This namespace has slave propagation, so that a mount that is removed meanwhile disappears from the namespace too.
 */
import { CsiError } from '../../base/errors.js';
import { pollUntil } from '../../base/poll.js';
import { run, toolFailure } from '../../base/process/exec.js';
import type { NativeRunner } from '../native/pool.js';
import { isHeldExclusively } from './device-holders.js';
import { otherBtrfsMounted } from './mounted-file-system.js';
import { btrfsIdentity } from './superblock.js';
import { entryAt } from './target.js';

/** Exists if the kernel mounts a second btrfs with the same id under a made-up id. */
const TEMPORARY_ID = '/sys/fs/btrfs/features/temp_fsid';
const MOUNT_TIMEOUT_MS = 600_000;
/** The kernel takes an ended namespace apart in the background. */
const RELEASE_TIMEOUT_MS = 10_000;
const RELEASE_POLL_MS = 20;

/** Gives this fsid to the btrfs on a device that is not mounted. `directory` is an empty directory to mount on for a moment. */
export async function giveIdentity(
  native: NativeRunner,
  devicePath: string,
  uuid: string,
  directory: string,
): Promise<void> {
  const found = await btrfsIdentity(native, devicePath);
  if (found.uuid === uuid) return;
  if (found.hasLog) {
    await assertMountable(devicePath, found.uuid);
    await replayLog(native, devicePath, directory);
  }
  if (await isHeldExclusively(devicePath)) throw heldByKernel(devicePath);
  await attempt(devicePath, () =>
    run('btrfstune', ['-M', uuid, { path: devicePath }], {
      outlivesLocking: devicePath,
      device: devicePath,
    }),
  );
}

/** Before Linux 6.7, a mount of the copy may mount the source instead while the source is mounted. */
async function assertMountable(devicePath: string, uuid: string): Promise<void> {
  if (!(await otherBtrfsMounted(devicePath)).includes(uuid)) return;
  if ((await entryAt(TEMPORARY_ID)) !== null) return;
  throw CsiError.failedPrecondition(
    `the btrfs on ${devicePath} is a copy with a log to be replayed, and a file system with its id is mounted; ` +
      'unmount that for as long as this one is staged for the first time, or use Linux 6.7 or later',
  );
}

async function replayLog(native: NativeRunner, devicePath: string, directory: string): Promise<void> {
  const mount = ['mount', '--no-mtab', '--internal-only', '-t', 'btrfs', '-o', 'rw,noatime,nosuid,nodev'];
  await attempt(devicePath, () =>
    run(
      'unshare',
      ['--mount', '--propagation', 'slave', '--', ...mount, '--', { path: devicePath }, { path: directory }],
      { timeoutMs: MOUNT_TIMEOUT_MS, mounts: true },
    ),
  );
  await released(devicePath);
  if ((await btrfsIdentity(native, devicePath)).hasLog) {
    throw CsiError.failedPrecondition(
      `the btrfs on ${devicePath} has a log that a mount did not replay; repair it by hand with btrfs check`,
    );
  }
}

/** Waits until nothing holds the device. */
async function released(devicePath: string): Promise<void> {
  const isReleased = await pollUntil(async () => !(await isHeldExclusively(devicePath)), {
    intervalMs: RELEASE_POLL_MS,
    timeoutMs: RELEASE_TIMEOUT_MS,
  });
  if (isReleased === null) throw heldByKernel(devicePath);
}

/** The device is mounted somewhere, most likely by the log replay of a killed plugin, whose namespace is still ending. */
function heldByKernel(devicePath: string): CsiError {
  return CsiError.aborted(
    `the btrfs on ${devicePath} is a copy that needs an id of its own, and its device is still held; try again`,
  );
}

async function attempt(devicePath: string, command: () => Promise<unknown>): Promise<void> {
  try {
    await command();
  } catch (thrown) {
    throw toolFailure(
      `the btrfs on ${devicePath} is a copy and could not be given an id of its own, without which ` +
        'the kernel takes it for its source; if a crash came in between, restore it again',
      thrown,
    );
  }
}
