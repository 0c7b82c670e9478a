/**
 * Makes a pool's directory one catalogue's, for ever.
 *
 * Two plugins on one pool would promise its space twice, remove each other's unfinished work, and the
 * first to stop would take the pool away under the other.
 *
 *   <directory>/pool-owner   uuid of the catalogue that serves the pool
 */
import { randomUUID } from 'node:crypto';
import { link, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CsiError, errorCode } from '../base/errors.js';
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
  // A claim that stands needs no space, which a full disk would not give.
  if ((await readOrNull(file)) === owner) return;
  const mine = `${file}.${randomUUID()}`;
  try {
    await writeFile(mine, `${owner}\n`, { mode: 0o600, flush: true });
    // A link, because it fails where a rename would replace another's claim.
    await link(mine, file);
    await native.run('flush', { path: directory });
  } catch (thrown) {
    if (errorCode(thrown) !== 'EEXIST') throw thrown;
  } finally {
    await rm(mine, { force: true });
  }
  const found = await readOrNull(file);
  if (found === owner) return;
  throw CsiError.failedPrecondition(
    `pool '${pool}' in ${directory} belongs to the catalogue ${found ?? 'of nobody'}, and this ` +
      `plugin's is ${owner}: a pool is served from one state directory. If that catalogue is gone ` +
      `for good, remove ${file}`,
  );
}

/** The text of a small file without the white space around it; null if there is no such file. */
export async function readOrNull(file: string): Promise<string | null> {
  try {
    return (await readFile(file, 'utf8')).trim();
  } catch (thrown) {
    if (errorCode(thrown) === 'ENOENT') return null;
    throw thrown;
  }
}
