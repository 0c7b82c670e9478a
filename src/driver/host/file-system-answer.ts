/**
 * Checks with a timeout whether a mounted file system answers, as any program would: opens its root, and asks for its space.
 *
 * A file system on a dead disk does not answer at all, and each question occupies a thread until the file system answers. So
 * each mount has at most one open question, whoever asks, and whatever part of the answer the caller needs. Writes nothing.
 */
import type { BigIntStatsFs } from 'node:fs';
import { open, statfs } from 'node:fs/promises';
import { errorCode } from '../../base/errors.js';
import { SingleFlight } from '../../base/single-flight.js';
import type { MountEntry } from '../../base/system/mountinfo.js';
import { withTimeout } from '../../base/timeout.js';

export interface FileSystemAnswer {
  /** Opening the root fails with an error of a file system that has given up. */
  hasGivenUp: boolean;
  space: PromiseSettledResult<BigIntStatsFs>;
}

/** How long a file system may take to answer. */
export const ANSWER_MS = 3000;
/** The errnos of a file system that has given up: XFS, ext4 on kernels that do not show its shutdown, and btrfs. */
const GIVEN_UP: readonly unknown[] = ['EIO', 'ESHUTDOWN', 'EUCLEAN'];

/** Unanswered questions, by mount id. */
const questions = new SingleFlight<number, FileSystemAnswer>();

/** Null if the file system does not answer in time. */
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
    // Any other error, as after an unmount meanwhile, does not count here; the caller decides what it means.
    return GIVEN_UP.includes(errorCode(thrown));
  }
}
