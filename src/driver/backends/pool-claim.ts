/**
 * Claims a pool's directory for one catalogue, permanently.
 *
 * Two plugins on one pool would commit its space twice and remove each other's unfinished work, and the
 * first to stop would unmount the pool under the other.
 *
 *   <directory>/pool-owner   uuid of the catalogue that serves the pool
 */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { CsiError, errorCode } from '../../base/errors.js';
import type { NativeRunner } from '../native/pool.js';

export interface PoolClaim {
  pool: string;
  directory: string;
  /** Uuid of the catalogue that this pool's volumes are recorded in. */
  owner: string;
}

/** FAILED_PRECONDITION if the directory is another catalogue's. */
export async function claimDirectory(native: NativeRunner, claim: PoolClaim): Promise<void> {
  const { pool, directory, owner } = claim;
  const file = join(directory, 'pool-owner');
  // An existing claim is not rewritten: a full disk would have no space for it.
  if ((await native.run('readText', { path: file })).text === owner) return;
  const candidate = `${file}.${randomUUID()}`;
  try {
    await native.run('writeText', { path: candidate, text: `${owner}\n` });
    // A link fails if there is a claim, where a rename would replace it.
    await native.run('linkFile', { from: candidate, to: file });
    await native.run('flush', { path: directory });
  } catch (thrown) {
    if (errorCode(thrown) !== 'EEXIST') throw thrown;
  } finally {
    await native.run('unlinkFile', { path: candidate });
  }
  const { text: found } = await native.run('readText', { path: file });
  if (found === owner) return;
  throw CsiError.failedPrecondition(
    `pool '${pool}' in ${directory} belongs to the catalogue ${found ?? '(none)'}, and this ` +
      `plugin's is ${owner}: a pool is served from one state directory. If that catalogue no longer ` +
      `exists, remove ${file}`,
  );
}
