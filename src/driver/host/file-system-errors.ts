/**
 * What the kernel reports about a mounted file system: counted errors, a shutdown, no answer.
 *
 * ext4 keeps its count on disk until fsck.ext4 clears it, and btrfs until `btrfs device stats -z` clears it; XFS counts nothing
 * and shuts down instead. An ext4 that has shut down still answers some calls but shows the shutdown among its mount options
 * (Linux 6.15); an XFS that has shut down fails to open its root. Writes nothing.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { insteadOf } from '../../base/errors.js';
import type { MountEntry } from '../../base/system/mountinfo.js';
import { ANSWER_MS, askFileSystem } from './file-system-answer.js';

export interface FileSystemTroubles {
  shutDown: boolean;
  silent: boolean;
  errors: number;
  /** How many of `errors` are corrupt content: the device returned something other than what was written. */
  corruptions: number;
}

const SHUT_DOWN_OPTIONS: readonly string[] = ['shutdown', 'emergency_ro'];
/** The counters in the error_stats of a btrfs device that count wrong content rather than failed requests. */
const CORRUPTIONS: readonly string[] = ['corruption_errs', 'generation_errs'];

/**
 * @param deviceName the name of the block device, such as `loop3`
 * @param answerMs how long the file system may take to answer
 */
export async function fileSystemTroubles(
  entry: Pick<MountEntry, 'mountId' | 'mountPoint' | 'fsType' | 'superOptions'>,
  deviceName: string,
  answerMs = ANSWER_MS,
): Promise<FileSystemTroubles> {
  const answer = await askFileSystem(entry, answerMs);
  const counted = entry.fsType === 'btrfs' ? btrfsErrors(deviceName) : ext4Errors(deviceName);
  return {
    shutDown: answer?.hasGivenUp === true || isShutDown(entry),
    silent: answer === null,
    ...(await counted),
  };
}

/** Whether the mount options show a shutdown. Not every file system sets such an option. Does not access the file system. */
function isShutDown({ superOptions }: Pick<MountEntry, 'superOptions'>): boolean {
  return superOptions.some((option) => SHUT_DOWN_OPTIONS.includes(option));
}

/** A read-only mount has both flags; after an error the kernel sets only the file system's flag. */
export function hasStoppedWriting(entry: Pick<MountEntry, 'superOptions' | 'superReadOnly' | 'readOnly'>): boolean {
  return isShutDown(entry) || (entry.superReadOnly && !entry.readOnly);
}

type Counted = Pick<FileSystemTroubles, 'errors' | 'corruptions'>;

/** Zero for anything but ext4. */
async function ext4Errors(deviceName: string): Promise<Counted> {
  const text = await readOrEmpty(join('/sys/fs/ext4', deviceName, 'errors_count'));
  return { errors: Number(text.trim() || 0), corruptions: 0 };
}

async function btrfsErrors(deviceName: string): Promise<Counted> {
  const counted = { errors: 0, corruptions: 0 };
  for (const fsid of await namesIn('/sys/fs/btrfs')) {
    const root = join('/sys/fs/btrfs', fsid);
    if (!(await namesIn(join(root, 'devices'))).includes(deviceName)) continue;
    for (const device of await namesIn(join(root, 'devinfo'))) {
      const text = await readOrEmpty(join(root, 'devinfo', device, 'error_stats'));
      for (const [, name, count] of text.matchAll(/^(\w+) (\d+)$/gm)) {
        counted.errors += Number(count);
        if (CORRUPTIONS.includes(name ?? '')) counted.corruptions += Number(count);
      }
    }
  }
  return counted;
}

/** Empty if there is no such directory. */
export async function namesIn(directory: string): Promise<string[]> {
  return readdir(directory).catch(insteadOf(ABSENT, []));
}

async function readOrEmpty(file: string): Promise<string> {
  return readFile(file, 'utf8').catch(insteadOf(ABSENT, ''));
}

/** The errors of a sysfs entry that has disappeared with its device. */
const ABSENT = ['ENOENT', 'ENOTDIR', 'ENODEV', 'EINVAL'];
