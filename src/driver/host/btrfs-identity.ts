/**
 * A btrfs of its own for a copied device.
 *
 * btrfs takes two devices with one fsid for one file system. Kernels before 6.7 then may mount the
 * other device, or refuse; later ones make an id up for as long as the mount lasts. So a copy gets an
 * fsid of its own before its first mount, by metadata_uuid (Linux 5.0), which rewrites superblocks
 * alone. Doing it again does nothing.
 *
 * Seen with btrfs-progs 6.2: a change that was stopped half way leaves a device that neither btrfstune
 * nor newer kernels take, so btrfstune continues if the plugin is killed. It opens its device without
 * O_EXCL and sees the mounts of its own namespace only, so the device is locked and checked beforehand.
 * And btrfstune on a device with a log that was not replayed destroys the file system. A mount replays
 * it, in a mount namespace of its own that ends with the command, and that what is unmounted meanwhile
 * leaves too (slave).
 */
import { CsiError } from '../../base/errors.js';
import { pollUntil } from '../../base/poll.js';
import { run, toolFailure } from '../../base/process/exec.js';
import { isHeldExclusively } from './device-holders.js';
import { otherBtrfsMounted } from './mounted-file-system.js';
import { btrfsIdentity } from './superblock.js';
import { entryAt } from './target.js';

/** Exists if the kernel mounts a second btrfs of one id under an id made up for it. */
const TEMPORARY_ID = '/sys/fs/btrfs/features/temp_fsid';
const MOUNT_TIMEOUT_MS = 600_000;
/** The kernel takes an ended namespace apart in the background. */
const RELEASE_TIMEOUT_MS = 10_000;
const RELEASE_POLL_MS = 20;

/** Gives the btrfs on a device that is not mounted this fsid. `directory` is an empty one, to mount on for a moment. */
export async function giveIdentity(
  devicePath: string,
  uuid: string,
  directory: string,
): Promise<void> {
  const found = await btrfsIdentity(devicePath);
  if (found.uuid === uuid) return;
  if (found.hasLog) {
    await assertMountable(devicePath, found.uuid);
    await replayLog(devicePath, directory);
  }
  if (await isHeldExclusively(devicePath)) throw heldByKernel(devicePath);
  await attempt(devicePath, () =>
    run('btrfstune', ['-M', uuid, { path: devicePath }], {
      outlivesLocking: devicePath,
      device: devicePath,
    }),
  );
}

/** Before Linux 6.7 a mount of the copy while its source is mounted may be one of the source. */
async function assertMountable(devicePath: string, uuid: string): Promise<void> {
  if (!(await otherBtrfsMounted(devicePath)).includes(uuid)) return;
  if ((await entryAt(TEMPORARY_ID)) !== null) return;
  throw CsiError.failedPrecondition(
    `the btrfs on ${devicePath} is a copy with a log to be replayed, and a file system with its id is mounted; ` +
      'unmount that for as long as this one is staged for the first time, or use Linux 6.7 or later',
  );
}

async function replayLog(devicePath: string, directory: string): Promise<void> {
  const mount = [
    'mount',
    '--no-mtab',
    '--internal-only',
    '-t',
    'btrfs',
    '-o',
    'rw,noatime,nosuid,nodev',
  ];
  await attempt(devicePath, () =>
    run(
      'unshare',
      [
        ...['--mount', '--propagation', 'slave', '--', ...mount, '--'],
        { path: devicePath },
        { path: directory },
      ],
      { timeoutMs: MOUNT_TIMEOUT_MS, mounts: true },
    ),
  );
  await released(devicePath);
  if ((await btrfsIdentity(devicePath)).hasLog) {
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

/** Mounted somewhere: by the replay of a plugin that was killed, most likely, whose namespace is ending. */
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
