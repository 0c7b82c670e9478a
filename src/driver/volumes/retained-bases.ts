/**
 * Decides which retained bases there are and for how long, and logs the bases that are invalidated. A retained base is a
 * deleted snapshot that deltas can still be computed from.
 *
 * Only the pool knows how a base is stored and whether a delta from it would still be sound. This file applies the limits. The
 * reason of an invalidation stays on record for a while, for the backup tool that asks next for a delta from that base.
 */

import { bestEffort, logLeftover } from '../../base/best-effort.js';
import { CsiError, messageOf } from '../../base/errors.js';
import type { Logger } from '../../base/logger.js';
import type { Backend } from '../backends/backend.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { NewRetainedBase, RetainedBaseRecord, SnapshotRecord } from '../catalogue/records.js';
import { heldAfter, type Placed, pendingBases } from './held-snapshots.js';
import { type OperationLocks, sharedByPlugin, snapshotKey } from './operation-locks.js';
import { judgeBases, type RetainedBaseLimits, type Verdict } from './retention.js';

export interface RetainedBasesDependencies {
  catalogue: AsyncCatalogue;
  locks: OperationLocks;
  limits: RetainedBaseLimits;
  logger: Logger;
}

export class RetainedBases {
  /** When the limits were last applied to each whole pool, in ms since the epoch. Absent if bases were added since. */
  readonly #reviewedMs = new Map<string, number>();

  constructor(private readonly deps: RetainedBasesDependencies) {}

  /**
   * Removes snapshots from their pool and returns the bases to record when the snapshots' rows are removed. The caller holds
   * the locks of the snapshots. Can be killed anywhere and called again.
   *
   * A snapshot is deleted even if nothing of it can be retained, because a full pool could not be emptied otherwise. ABORTED if
   * the next snapshot of its volume is still being deleted after a wait.
   */
  async removeSnapshots(backend: Backend, snapshots: readonly SnapshotRecord[]): Promise<NewRetainedBase[]> {
    const bases: NewRetainedBase[] = [];
    for (const snapshot of snapshots) {
      const base = await this.#remove(backend, snapshot);
      if (base !== null) bases.push(base);
    }
    return bases;
  }

  /**
   * Stores the change lists of the pending bases that precede this snapshot in its volume, and frees the blocks of those bases.
   * The caller holds no lock of the snapshots. Skips busy bases; the next deletion or start completes them.
   */
  async completePending(backend: Backend, snapshot: Placed): Promise<void> {
    await this.#completeBefore(backend, snapshot, null);
  }

  /**
   * Applies the limits to the bases of volumes after a deletion, and completes the pending bases. A failure is logged and not
   * thrown, because the deletion itself has succeeded.
   */
  async prune(backend: Backend, volumeIds: readonly string[]): Promise<void> {
    const { catalogue, logger } = this.deps;
    const { pool } = backend;
    this.#reviewedMs.delete(pool);
    try {
      for (const volumeId of new Set(volumeIds)) {
        await this.#judge(backend, () => catalogue.retainedBasesOf(pool, volumeId), 'some');
        for (const { snapshotId } of await pendingBases(catalogue, backend, volumeId))
          await this.#completeLater(backend, snapshotId);
      }
    } catch (thrown) {
      logger.warn(
        { pool, err: thrown },
        'could not apply the limits of retained bases; they are applied again within a minute',
      );
    }
  }

  /**
   * Makes the catalogue and the pool agree on the retained bases, removes the bases over the limits, and completes the pending
   * bases. Looks at the whole pool. Skips bases that are being read, created or removed at the moment; the next call handles
   * them.
   */
  async review(backend: Backend): Promise<void> {
    const { catalogue } = this.deps;
    this.#reviewedMs.set(backend.pool, Date.now());
    await this.#judge(backend, () => catalogue.listRetainedBases(backend.pool), 'all');
    for (const snapshotId of [...backend.bases.held.keys()]) await this.#completeLater(backend, snapshotId);
  }

  /**
   * Handles a deleted snapshot that the pool shows like any other because its mark was lost: marks the snapshot again, or gives
   * the base up and removes the snapshot. False if the snapshot has no row as a base of this pool.
   */
  async recover(backend: Backend, snapshotId: string): Promise<boolean> {
    const { catalogue } = this.deps;
    const record = await catalogue.retainedBaseById(snapshotId);
    if (record === null || record.pool !== backend.pool) return false;
    if (record.invalidated === null) {
      const reason = await this.#heldAgain(backend, record);
      if (reason === null) return true;
      await catalogue.invalidateRetainedBase(snapshotId, reason, now());
      this.#logInvalidated(record, { reason });
    }
    await backend.bases.drop(snapshotId);
    await backend.snapshots.delete(snapshotId);
    return true;
  }

  /** Calls `review` if a deletion came since the last call, or if an hour has passed, because bases age. */
  async reviewIfDue(backend: Backend): Promise<void> {
    const reviewedMs = this.#reviewedMs.get(backend.pool);
    if (reviewedMs === undefined || Date.now() - reviewedMs > LONGEST_UNREVIEWED_MS) await this.review(backend);
  }

  /** Retains the base again. Null on success, otherwise the reason as a clause that follows "because". */
  async #heldAgain(backend: Backend, { snapshotId, sizeBytes }: RetainedBaseRecord) {
    try {
      await backend.snapshots.check(snapshotId, sizeBytes);
      const retained = await backend.bases.retain(snapshotId, null);
      return retained !== null && 'unretained' in retained ? retained.unretained : null;
    } catch (thrown) {
      await backend.check();
      return messageOf(thrown);
    }
  }

  /** @param extent `all` if the records are those of the whole pool */
  async #judge(
    backend: Backend,
    recordsNow: () => Promise<RetainedBaseRecord[]>,
    extent: 'all' | 'some',
  ): Promise<void> {
    // An invalidation may make others necessary, of the bases whose lists lead through the invalidated base.
    for (let round = 0; round < MAX_ROUNDS; round += 1) {
      // Reads the records before the pool, because a base that is created in between is in the pool before it has a record.
      const records = await recordsNow();
      const held = backend.bases.all(extent === 'all' ? undefined : records.map(idOf));
      const { limits } = this.deps;
      const verdicts = judgeBases({ records, held, limits, nowNs: now() });
      for (const verdict of verdicts) await this.#carryOut(backend, verdict);
      const valid = records.filter(({ invalidated }) => invalidated === null);
      const recorded = new Set(valid.map(idOf));
      const unrecorded = [...held.usable, ...held.invalidated].map(idOf).filter((id) => !recorded.has(id));
      for (const snapshotId of unrecorded) await this.#dropUnrecorded(backend, snapshotId);
      if (!verdicts.some(({ invalidation }) => invalidation !== null)) return;
    }
  }

  async #remove(backend: Backend, snapshot: SnapshotRecord): Promise<NewRetainedBase | null> {
    const { limits, locks } = this.deps;
    const { snapshotId, creationTimeNs } = snapshot;
    // A creation time of 0 means that the snapshot was never completed, so no caller has seen it.
    if (limits.perVolume === 0 || creationTimeNs === 0n) {
      await backend.snapshots.delete(snapshotId);
      return creationTimeNs === 0n ? null : unretained(snapshotId, NONE_ARE_RETAINED);
    }
    await this.#completeBefore(backend, snapshot, snapshotId);
    // Never aborts: the wait for a lock has a limit of its own.
    const { signal } = new AbortController();
    for (let looks = 0; looks < MAX_LOOKS; looks += 1) {
      const next = await this.#next(backend, snapshot);
      const wanted = next === null ? [] : [sharedByPlugin(snapshotKey(next.snapshotId))];
      const done = await locks.run(
        wanted,
        async () => {
          // The next snapshot may have been deleted while this call waited.
          const now = await this.#next(backend, snapshot);
          if (now?.snapshotId !== next?.snapshotId) return null;
          const base = await this.#retain(backend, snapshot, next?.snapshotId ?? null);
          if (next !== null) {
            await this.#join(backend, snapshotId, next.snapshotId);
          }
          await backend.snapshots.delete(snapshotId);
          return { base };
        },
        signal,
      );
      if (done !== null) return done.base;
    }
    throw CsiError.aborted(
      `snapshot ${snapshotId} is not deleted: ${MAX_LOOKS} later snapshots of volume ${snapshot.volumeId} were deleted while ` +
        'the call waited for them; try again',
    );
  }

  /** The next snapshot that the pool holds. A pool that cannot list its bases counts as a pool without pending bases. */
  async #next(backend: Backend, snapshot: SnapshotRecord): Promise<Placed | null> {
    const { catalogue } = this.deps;
    return heldAfter(catalogue, backend, snapshot).catch(() =>
      catalogue.snapshotAfter(snapshot.volumeId, snapshot.sequence),
    );
  }

  async #retain(backend: Backend, snapshot: SnapshotRecord, nextId: string | null): Promise<NewRetainedBase | null> {
    const { snapshotId } = snapshot;
    try {
      const retained = await backend.bases.retain(snapshotId, nextId);
      if (retained === null) return null;
      if ('unretained' in retained) return unretained(snapshotId, retained.unretained);
      const { storedBytes } = retained;
      return { snapshotId, deletedNs: now(), storedBytes, invalidReason: null };
    } catch (thrown) {
      const reason = messageOf(thrown);
      this.#logInvalidated(snapshot, { reason, err: thrown });
      return unretained(snapshotId, reason);
    }
  }

  /** @param lockedId a snapshot whose lock the caller holds */
  async #completeBefore(backend: Backend, snapshot: Placed, lockedId: string | null): Promise<void> {
    const { catalogue } = this.deps;
    try {
      const pending = await pendingBases(catalogue, backend, snapshot.volumeId);
      for (const base of pending) {
        if (base.sequence < snapshot.sequence) await this.#complete(backend, base, snapshot, lockedId);
      }
    } catch (thrown) {
      const { volumeId } = snapshot;
      this.deps.logger.warn(
        { pool: backend.pool, volumeId, err: thrown },
        'could not store the change list of a retained base; it holds its blocks until the next deletion or start',
      );
    }
  }

  /** Completes the pending base if there is a later snapshot by now. */
  async #completeLater(backend: Backend, pendingId: string): Promise<void> {
    const { catalogue } = this.deps;
    const record = await catalogue.retainedBaseById(pendingId);
    if (record === null) return;
    const next = await catalogue.snapshotAfter(record.volumeId, record.sequence);
    if (next !== null) await this.#completeBefore(backend, next, null);
  }

  async #complete(backend: Backend, base: RetainedBaseRecord, within: Placed, lockedId: string | null): Promise<void> {
    const { catalogue, locks } = this.deps;
    const { snapshotId } = base;
    // The snapshot that is being deleted is no longer ready, and the pool still holds it.
    const ready = await heldAfter(catalogue, backend, base);
    const next = ready === null || ready.sequence > within.sequence ? within : ready;
    const keys = [snapshotKey(snapshotId)];
    if (next.snapshotId !== lockedId) keys.push(sharedByPlugin(snapshotKey(next.snapshotId)));
    if (keys.some((key) => locks.isBusy(key))) return;
    await locks.run(keys, async () => {
      const retained = await backend.bases.retain(snapshotId, next.snapshotId);
      if (retained === null || 'unretained' in retained) return;
      await this.#join(backend, snapshotId, next.snapshotId);
      await backend.snapshots.delete(snapshotId);
    });
  }

  /** Without the join, the deleted snapshot's list is lost: later deltas from older bases read extent maps or are refused. */
  #join(backend: Backend, snapshotId: string, nextId: string): Promise<void> {
    const onFailure = logLeftover(this.deps.logger, {
      stays: `the change list of snapshot ${snapshotId}, which could not be joined with that of ${nextId}`,
      removedBy: 'the deletion that goes on; a delta across both is then longer, or refused with the reason',
    });
    return bestEffort(() => backend.changes.join(snapshotId, nextId), onFailure);
  }

  /** Takes the lock that streams share, so that no stream loses its base. Skips a base that is busy. */
  async #carryOut(backend: Backend, { record, invalidation }: Verdict): Promise<void> {
    const { catalogue, locks } = this.deps;
    const { snapshotId } = record;
    const key = snapshotKey(snapshotId);
    if (locks.isBusy(key)) return;
    await locks.run([key], async () => {
      const found = await catalogue.retainedBaseById(snapshotId);
      if (found === null) return;
      if (invalidation === null) {
        await backend.bases.drop(snapshotId);
        await catalogue.removeRetainedBase(snapshotId);
      } else if (found.invalidated === null) {
        const { reason, expected } = invalidation;
        await catalogue.invalidateRetainedBase(snapshotId, reason, now());
        await backend.bases.drop(snapshotId);
        if (expected) this.#logExpired(record, reason);
        else this.#logInvalidated(record, { reason });
      }
    });
  }

  /**
   * Removes a base that the pool holds and no record names, because a kill came between storing the base and recording it, or
   * because the catalogue was restored from a backup.
   */
  async #dropUnrecorded(backend: Backend, snapshotId: string): Promise<void> {
    const { catalogue, locks } = this.deps;
    const key = snapshotKey(snapshotId);
    if (locks.isBusy(key)) return;
    await locks.run([key], async () => {
      // The snapshot still has a row: its deletion is unfinished, and records the base.
      if ((await catalogue.snapshotById(snapshotId)) !== null) return;
      const record = await catalogue.retainedBaseById(snapshotId);
      if (record === null || record.invalidated !== null) await backend.bases.drop(snapshotId);
    });
  }

  #logExpired({ snapshotId, volumeId, pool }: RetainedBaseRecord, reason: string): void {
    const { logger } = this.deps;
    logger.info({ snapshotId, volumeId, pool, reason }, 'a retained base has expired');
  }

  #logInvalidated(
    { snapshotId, volumeId, pool }: Pick<SnapshotRecord, 'snapshotId' | 'volumeId' | 'pool'>,
    why: { reason: string; err?: unknown },
  ): void {
    this.deps.logger.warn(
      { snapshotId, volumeId, pool, ...why },
      'a retained base is invalid: the next backup based on it has to be a full one',
    );
  }
}

/** How many rounds one call makes at most to invalidate bases whose lists lead through each other; the next call continues. */
const MAX_ROUNDS = 3;
const LONGEST_UNREVIEWED_MS = 3_600_000;
/** How often a deletion looks for the next snapshot while next snapshots are deleted, which takes seconds if lists are stored. */
const MAX_LOOKS = 16;

const NONE_ARE_RETAINED = 'no bases are retained here (BLOCKDELTA_RETAINED_BASES_COUNT)';

/** @param why a clause that follows "because" */
function unretained(snapshotId: string, why: string): NewRetainedBase {
  const invalidReason = `it could not be retained when it was deleted: ${why}`;
  return { snapshotId, deletedNs: now(), storedBytes: 0n, invalidReason };
}

const idOf = ({ snapshotId }: { snapshotId: string }): string => snapshotId;

const now = (): bigint => BigInt(Date.now()) * 1_000_000n;
