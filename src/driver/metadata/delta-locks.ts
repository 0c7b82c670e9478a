/**
 * The locks of a delta: those of the base and the target. If the base is deleted and the lists from it end before the
 * target, one more list is needed, and the snapshot that it is made from is locked too. Deletions change which snapshot
 * that is, and a call that waits holds no lock, so the snapshot is determined both before and after the wait.
 */
import { CsiError } from '../../base/errors.js';
import type { Backend } from '../backends/backend.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import { type OperationLocks, type Release, shared, snapshotKey } from '../volumes/operation-locks.js';

export interface DeltaLocksDependencies {
  catalogue: Pick<AsyncCatalogue, 'snapshotById'>;
  locks: OperationLocks;
  backendOf(pool: string): Pick<Backend, 'changes'>;
}

interface Pair {
  targetId: string;
  baseId: string;
}

const MAX_ATTEMPTS = 5;

/** Waits for the locks. ABORTED, with a message that names what is busy, if the wait ends before the locks are free. */
export async function lockForDelta(deps: DeltaLocksDependencies, pair: Pair, signal: AbortSignal): Promise<Release> {
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
    const neededId = await neededFor(deps, pair);
    const ids = [pair.baseId, pair.targetId, ...(neededId === null ? [] : [neededId])];
    const release = await deps.locks.acquireFor(
      ids.map((id) => shared(snapshotKey(id))),
      signal,
    );
    let isSame = false;
    try {
      isSame = (await neededFor(deps, pair)) === neededId;
    } finally {
      if (!isSame) release();
    }
    if (isSame) return release;
  }
  const { baseId, targetId } = pair;
  throw CsiError.aborted(
    `no delta from snapshot ${baseId} to ${targetId}: snapshots between the two are being deleted; try again`,
  );
}

/** See SnapshotChanges.neededFor. The result is also null if the target does not exist. */
async function neededFor(
  { catalogue, backendOf }: DeltaLocksDependencies,
  { targetId, baseId }: Pair,
): Promise<string | null> {
  const target = await catalogue.snapshotById(targetId);
  return target === null ? null : backendOf(target.pool).changes.neededFor(targetId, baseId);
}
