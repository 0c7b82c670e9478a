/** The directories of a pool with what deltas need: change lists, and what is known of deleted snapshots. */
import { join } from 'node:path';
import { CsiError, StatusCode } from '../../../base/errors.js';
import type { NativeRunner } from '../../native/pool.js';

export const listsIn = (root: string): string => join(root, 'lists');
export const basesIn = (root: string): string => join(root, 'bases');

/** The pool is there and refused, until somebody repairs it. */
export class PoolDamaged extends CsiError {
  constructor(message: string) {
    super(StatusCode.FAILED_PRECONDITION, message);
  }
}

/**
 * PoolDamaged if something else is in the place of one of them. There may be none: they are made when needed.
 *
 * @param root of the pool
 * @param realRoot as operators know it
 */
export async function assertRetainedDirectories(
  native: NativeRunner,
  pool: string,
  root: string,
  realRoot = root,
): Promise<void> {
  // One after the other: nothing may look through the descriptors of `root` when the first has failed.
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
