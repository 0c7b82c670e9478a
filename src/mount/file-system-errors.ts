/**
 * What the kernel says of a mounted file system's troubles: counted errors, a shutdown, no answer.
 *
 * ext4 keeps its count on disk until fsck.ext4 clears it, btrfs until `btrfs device stats -z`; XFS
 * counts nothing, it shuts down. An ext4 that has shut down still answers some calls but says so
 * among its mount options (Linux 6.15), an XFS fails to open its root. Nothing is written, and the
 * question never waits long: a file system on a dead disk does not answer at all.
 */
import { open, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { errorCode } from '../errors.js';
import type { MountEntry } from './mountinfo.js';

export interface FileSystemTroubles {
  shutDown: boolean;
  silent: boolean;
  errors: number;
  /** Of those, content that was read back as something else than what was written. */
  corruptions: number;
}

const ANSWER_MS = 3000;
const SHUT_DOWN_OPTIONS: readonly string[] = ['shutdown', 'emergency_ro'];
/** The errnos of a file system that has given up (XFS; ext4 before it said so; btrfs). */
const SHUT_DOWN_ERRNOS: readonly unknown[] = ['EIO', 'ESHUTDOWN', 'EUCLEAN'];
/** In the error_stats of a btrfs device: what is not a failed request but wrong content. */
const CORRUPTIONS: readonly string[] = ['corruption_errs', 'generation_errs'];

type Opening = 'fine' | 'shut down' | 'silent';
/** Questions without an answer yet, by mount id: a dead disk gets one at a time. */
const pending = new Map<number, Promise<Opening>>();

/**
 * @param deviceName of the block device, such as `loop3`
 * @param answerMs how long the file system may take to answer
 */
export async function fileSystemTroubles(
  entry: Pick<MountEntry, 'mountId' | 'mountPoint' | 'fsType' | 'superOptions'>,
  deviceName: string,
  answerMs = ANSWER_MS,
): Promise<FileSystemTroubles> {
  const opening = await openInTime(entry, answerMs);
  const counted = entry.fsType === 'btrfs' ? btrfsErrors(deviceName) : ext4Errors(deviceName);
  return {
    shutDown:
      opening === 'shut down' ||
      entry.superOptions.some((option) => SHUT_DOWN_OPTIONS.includes(option)),
    silent: opening === 'silent',
    ...(await counted),
  };
}

async function openInTime(
  entry: Pick<MountEntry, 'mountId' | 'mountPoint'>,
  answerMs: number,
): Promise<Opening> {
  let asked = pending.get(entry.mountId);
  if (asked === undefined) {
    asked = openRoot(entry.mountPoint).finally(() => pending.delete(entry.mountId));
    pending.set(entry.mountId, asked);
  }
  const timer = new AbortController();
  const late = delay(answerMs, 'silent' as const, { signal: timer.signal }).catch(
    () => 'silent' as const,
  );
  const opening = await Promise.race([asked, late]);
  timer.abort();
  return opening;
}

async function openRoot(path: string): Promise<Opening> {
  try {
    await (await open(path, 'r')).close();
    return 'fine';
  } catch (thrown) {
    // Unmounted meanwhile, or the like: what is wrong then is for others to say.
    return SHUT_DOWN_ERRNOS.includes(errorCode(thrown)) ? 'shut down' : 'fine';
  }
}

type Counted = Pick<FileSystemTroubles, 'errors' | 'corruptions'>;

/** Zero for what is no ext4. */
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

async function namesIn(directory: string): Promise<string[]> {
  return readdir(directory).catch(absent<string[]>([]));
}

async function readOrEmpty(file: string): Promise<string> {
  return readFile(file, 'utf8').catch(absent(''));
}

/** Sysfs entries go with their device. */
function absent<T>(value: T): (thrown: unknown) => T {
  return (thrown) => {
    const code = errorCode(thrown);
    if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'ENODEV' || code === 'EINVAL') {
      return value;
    }
    throw thrown;
  };
}
