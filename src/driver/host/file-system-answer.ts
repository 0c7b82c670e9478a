/**
 * Asks a mounted file system what any program would, with a timeout: its root, and its space.
 *
 * A file system on a dead disk does not answer at all, and each question to it holds a thread until
 * it does. So there is never more than one to a mount, whoever asks, and for whatever part of it.
 * Nothing is written.
 */
import type { BigIntStatsFs } from 'node:fs';
import { open, statfs } from 'node:fs/promises';
import { errorCode } from '../../base/errors.js';
import { SingleFlight } from '../../base/single-flight.js';
import type { MountEntry } from '../../base/system/mountinfo.js';
import { withTimeout } from '../../base/timeout.js';

export interface FileSystemAnswer {
  /** Opening the root fails as it does in a file system that has given up. */
  hasGivenUp: boolean;
  space: PromiseSettledResult<BigIntStatsFs>;
}

/** How long a file system may take to answer. */
export const ANSWER_MS = 3000;
/** The errnos of a file system that has given up (XFS; ext4 before it said so; btrfs). */
const GIVEN_UP: readonly unknown[] = ['EIO', 'ESHUTDOWN', 'EUCLEAN'];

/** Questions without an answer yet, by mount id. */
const questions = new SingleFlight<number, FileSystemAnswer>();

/** Null: no answer in time. */
export async function askFileSystem(
  { mountId, mountPoint }: Pick<MountEntry, 'mountId' | 'mountPoint'>,
  answerMs = ANSWER_MS,
): Promise<FileSystemAnswer | null> {
  const asked = questions.run(mountId, () => ask(mountPoint));
  return withTimeout(asked, answerMs, () => null);
}

async function ask(path: string): Promise<FileSystemAnswer> {
  const hasGivenUp = await isRootLost(path);
  const [space] = await Promise.allSettled([statfs(path, { bigint: true })]);
  return { hasGivenUp, space };
}

async function isRootLost(path: string): Promise<boolean> {
  try {
    await (await open(path, 'r')).close();
    return false;
  } catch (thrown) {
    // Unmounted meanwhile, or similar; the caller decides what that means.
    return GIVEN_UP.includes(errorCode(thrown));
  }
}
