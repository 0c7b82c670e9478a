/**
 * What the kernel has made of a mount: that the options and devices in force are those asked for.
 *
 * A superblock is checked before it is mounted; a process that still has the device open could change it
 * in between. The options in force afterwards cannot be changed from the device. Reads; never writes.
 */
import { readFile, readlink, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { insteadOf } from '../../base/errors.js';
import { type MountEntry, majorOf, minorOf, mountsOfDevice } from '../../base/system/mountinfo.js';
import { namesIn } from './file-system-errors.js';
import type { FileSystem } from './file-systems.js';

/** Mount options of ext4 that a superblock must not choose, by what /proc/fs/ext4 shows if they are in force. */
const EXT4_CHOICES = ['data=journal', 'data=writeback', 'nobarrier', 'dax=always'] as const;
/** XFS options that name other devices. */
const XFS_DEVICES = /^(logdev|rtdev)=/;
const BTRFS_FILE_SYSTEMS = '/sys/fs/btrfs';

/**
 * What is in force on a device just mounted and was not asked for, in few words; null: nothing.
 * `asked` are the mount's options, `mounts` the mounts after it.
 */
export async function unaskedInForce(
  type: FileSystem,
  devicePath: string,
  asked: readonly string[],
  mounts: readonly MountEntry[],
): Promise<string | null> {
  const { rdev } = await stat(devicePath);
  const name = await kernelName(rdev);
  if (type === 'ext4') return unaskedOfExt4(name, asked);
  if (type === 'btrfs') return unaskedOfBtrfs(name);
  const entries = mountsOfDevice(mounts, rdev);
  return (
    entries.flatMap((entry) => entry.superOptions).find((one) => XFS_DEVICES.test(one)) ?? null
  );
}

/** The fsids of the btrfs mounted on this host that do not have the device. */
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
  // A proc that hides it: the options were given, and the kernel took them.
  if (text === null) return null;
  const inForce = text.split('\n');
  const onErrors = inForce.find((option) => option.startsWith('errors='));
  if (onErrors !== 'errors=remount-ro') return onErrors ?? 'no errors= option';
  const isBarrierless = (option: string): boolean =>
    option === 'nobarrier' && asked.includes('barrier=0');
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

/** None of `features`, which lies beside the file systems. */
const btrfsDevices = (fsid: string): Promise<string[]> =>
  namesIn(join(BTRFS_FILE_SYSTEMS, fsid, 'devices'));

/** As sysfs and procfs call the device: `loop3`, `dm-4`. */
async function kernelName(rdev: number): Promise<string> {
  return basename(await readlink(`/sys/dev/block/${majorOf(rdev)}:${minorOf(rdev)}`));
}
