/** The directories of a pool that hold what deltas need: change lists, and records of deleted snapshots. */
import { join } from 'node:path';
import { CsiError, StatusCode } from '../../../base/errors.js';
import type { NativeRunner } from '../../native/pool.js';

export const listsIn = (root: string): string => join(root, 'lists');
export const basesIn = (root: string): string => join(root, 'bases');

/** The pool exists, but is refused until somebody repairs it. */
export class PoolDamaged extends CsiError {
  constructor(message: string) {
    super(StatusCode.FAILED_PRECONDITION, message);
  }
}

/**
 * PoolDamaged if something else is in the place of one of these directories. A missing directory is made when needed.
 *
 * @param root the path of the pool
 * @param realRoot the path of the pool as operators know it
 */
export async function assertRetainedDirectories(
  native: NativeRunner,
  pool: string,
  root: string,
  realRoot = root,
): Promise<void> {
  // One after the other: once the first check has failed, nothing may use the descriptors of `root` any more.
  for (const of of [listsIn, basesIn]) {
    const { entry } = await native.run('entryOf', { path: of(root) });
    if (entry === null || entry.kind === 'directory') continue;
    const found = entry.kind === 'file' ? 'a regular file' : 'none';
    throw new PoolDamaged(
      `${of(realRoot)} of pool '${pool}' should be a directory and is ${found}: another program replaced it, and no ` +
        'snapshot is deleted until that is repaired; remove what is there, and put the directory back if you have it',
    );
  }
}
