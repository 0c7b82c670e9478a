/**
 * Claims a pool's directory for one catalogue, permanently.
 *
 * Two plugins on one pool would commit its space twice and remove each other's unfinished work, and the
 * first to stop would unmount the pool under the other.
 *
 *   <directory>/pool-owner   uuid of the catalogue that serves the pool
 */
import { randomUUID } from 'node:crypto';
import { link, readFile, rm, writeFile } from 'node:fs/promises';
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
  if ((await readOrNull(file)) === owner) return;
  const candidate = `${file}.${randomUUID()}`;
  try {
    await writeFile(candidate, `${owner}\n`, { mode: 0o600, flush: true });
    // A link fails if there is a claim, where a rename would replace it.
    await link(candidate, file);
    await native.run('flush', { path: directory });
  } catch (thrown) {
    if (errorCode(thrown) !== 'EEXIST') throw thrown;
  } finally {
    await rm(candidate, { force: true });
  }
  const found = await readOrNull(file);
  if (found === owner) return;
  throw CsiError.failedPrecondition(
    `pool '${pool}' in ${directory} belongs to the catalogue ${found ?? '(none)'}, and this ` +
      `plugin's is ${owner}: a pool is served from one state directory. If that catalogue no longer ` +
      `exists, remove ${file}`,
  );
}

/** The trimmed text of a small file; null if there is no such file. */
export async function readOrNull(file: string): Promise<string | null> {
  try {
    return (await readFile(file, 'utf8')).trim();
  } catch (thrown) {
    if (errorCode(thrown) === 'ENOENT') return null;
    throw thrown;
  }
}
