/**
 * Checks after a mount that the options and devices in force are the requested ones.
 *
 * A superblock is checked before its mount, but a process that still has the device open could change the superblock in
 * between. Nothing on the device can change the options in force after the mount. Never writes.
 */
import { readFile, readlink, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { insteadOf } from '../../base/errors.js';
import { type MountEntry, majorOf, minorOf, mountsOfDevice } from '../../base/system/mountinfo.js';
import { namesIn } from './file-system-errors.js';
import type { FileSystem } from './file-systems.js';

/** Mount options of ext4 that a superblock must not choose, as /proc/fs/ext4 shows them when they are in force. */
const EXT4_CHOICES = ['data=journal', 'data=writeback', 'nobarrier', 'dax=always'] as const;
/** XFS options that name other devices. */
const XFS_DEVICES = /^(logdev|rtdev)=/;
const BTRFS_FILE_SYSTEMS = '/sys/fs/btrfs';

/**
 * An option or a number of devices that is in force on a device just mounted although nobody asked for it, in a few words; null
 * if there is none. `rdev` is the st_rdev of the device, `asked` are the options of the mount, `mounts` are the mounts after it.
 */
export async function unaskedInForce(
  type: FileSystem,
  rdev: number,
  asked: readonly string[],
  mounts: readonly MountEntry[],
): Promise<string | null> {
  if (type === 'ext4') return unaskedOfExt4(await kernelName(rdev), asked);
  if (type === 'btrfs') return unaskedOfBtrfs(await kernelName(rdev));
  const entries = mountsOfDevice(mounts, rdev);
  return entries.flatMap((entry) => entry.superOptions).find((one) => XFS_DEVICES.test(one)) ?? null;
}

/** The fsids of the btrfs file systems that are mounted on this host and do not contain the device. */
export async function otherBtrfsMounted(devicePath: string): Promise<string[]> {
  const name = await kernelName((await stat(devicePath)).rdev);
  const others: string[] = [];
  for (const fsid of await namesIn(BTRFS_FILE_SYSTEMS)) {
    const devices = await btrfsDevices(fsid);
    if (devices.length > 0 && !devices.includes(name)) others.push(fsid);
  }
  return others;
}

async function unaskedOfExt4(name: string, asked: readonly string[]): Promise<string | null> {
  const file = join('/proc/fs/ext4', name, 'options');
  const text = await readFile(file, 'utf8').catch(insteadOf(['ENOENT'], null));
  // This proc hides the file. The mount passed its options, and the kernel accepted them.
  if (text === null) return null;
  const inForce = text.split('\n');
  const onErrors = inForce.find((option) => option.startsWith('errors='));
  if (onErrors !== 'errors=remount-ro') return onErrors ?? 'no errors= option';
  const isBarrierless = (option: string): boolean => option === 'nobarrier' && asked.includes('barrier=0');
  const odd = EXT4_CHOICES.find((option) => inForce.includes(option));
  return odd === undefined || asked.includes(odd) || isBarrierless(odd) ? null : odd;
}

async function unaskedOfBtrfs(name: string): Promise<string | null> {
  for (const fsid of await namesIn(BTRFS_FILE_SYSTEMS)) {
    const devices = await btrfsDevices(fsid);
    if (devices.includes(name)) return devices.length === 1 ? null : `${devices.length} devices`;
  }
  return null;
}

/** The names of the devices of a btrfs; none for `features`, a directory beside the file systems. */
const btrfsDevices = (fsid: string): Promise<string[]> => namesIn(join(BTRFS_FILE_SYSTEMS, fsid, 'devices'));

/** The name of the device in sysfs and procfs, such as `loop3` or `dm-4`. */
async function kernelName(rdev: number): Promise<string> {
  return basename(await readlink(`/sys/dev/block/${majorOf(rdev)}:${minorOf(rdev)}`));
}
