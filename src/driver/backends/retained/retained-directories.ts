/** The directories of a pool with what deltas need: change lists, and what is known of deleted snapshots. */
import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import { CsiError, errorCode } from '../../../base/errors.js';

export const listsIn = (root: string): string => join(root, 'lists');
export const basesIn = (root: string): string => join(root, 'bases');

/**
 * FAILED_PRECONDITION if something else is in the place of one of them. There may be none: they are made when needed.
 *
 * @param root of the pool
 * @param realRoot as operators know it
 */
export async function assertRetainedDirectories(
  pool: string,
  root: string,
  realRoot = root,
): Promise<void> {
  // One after the other: nothing may look through the descriptors of `root` when the first has failed.
  for (const of of [listsIn, basesIn]) await assertDirectory(pool, of(root), of(realRoot));
}

async function assertDirectory(pool: string, path: string, realPath: string): Promise<void> {
  const found = await lstat(path).catch((thrown: unknown) => {
    if (errorCode(thrown) === 'ENOENT') return null;
    throw thrown;
  });
  if (found === null || found.isDirectory()) return;
  throw CsiError.failedPrecondition(
    `${realPath} of pool '${pool}' should be a directory and is ${found.isFile() ? 'a regular file' : 'none'}: ` +
      'another program replaced it, and no snapshot is deleted until that is repaired; remove what is there, and ' +
      'put the directory back if you have it',
  );
}
