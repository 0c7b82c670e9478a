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

const OWNER = 'pool-owner';
/** The uuid of a catalogue is written without dashes. */
const UUID = /^[0-9a-f-]{32,36}$/;

/** FAILED_PRECONDITION if the directory belongs to another catalogue. */
export async function claimDirectory(native: NativeRunner, claim: PoolClaim): Promise<void> {
  const { pool, directory, owner } = claim;
  const file = join(directory, OWNER);
  // An existing claim is not rewritten: a full disk would have no space for it.
  if ((await poolOwner(native, directory)) === owner) return;
  const candidate = `${file}.${randomUUID()}`;
  try {
    await native.run('writeText', { path: candidate, text: `${owner}\n` });
    // A link fails if there is a claim; a rename would replace the claim.
    await native.run('linkFile', { from: candidate, to: file });
    await native.run('flush', { path: directory });
  } catch (thrown) {
    if (errorCode(thrown) !== 'EEXIST') throw thrown;
  } finally {
    await native.run('unlinkFile', { path: candidate });
  }
  const found = await poolOwner(native, directory);
  if (found === owner) return;
  throw CsiError.failedPrecondition(
    `pool '${pool}' in ${directory} belongs to the catalogue ${found ?? '(none)'}, and this ` +
      `plugin's is ${owner}: a pool is served from one state directory. Set BLOCKDELTA_STATE_DIR to that of the pool's ` +
      `catalogue, or restore the catalogue from a backup (docs/runbook.md). Only if neither exists any more, remove ${file}`,
  );
}

/** Uuid of the catalogue that has claimed the directory; null if none has. */
export function poolOwner(native: NativeRunner, directory: string): Promise<string | null> {
  return readIdentity(native, join(directory, OWNER));
}

/** The text of a file; null if there is no file. FAILED_PRECONDITION if no uuid begins the text, which may be a secret. */
export async function readIdentity(native: NativeRunner, path: string): Promise<string | null> {
  const { text } = await native.run('readText', { path });
  if (text === null || UUID.test(text.split(' ')[0] ?? '')) return text;
  throw CsiError.failedPrecondition(
    `${path} does not begin with a uuid: look at what is there, and put the right file back`,
  );
}
