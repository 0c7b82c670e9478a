/**
 * Retained bases: deleted snapshots that deltas can still be computed from. Decides which there are and
 * for how long, and logs what is invalidated.
 *
 * Only the pool knows how a base is stored and whether a delta from it would still be sound. This file
 * applies the limits. An invalidated base leaves its reason on record for a while, for the backup tool
 * that asks for a delta from it next.
 */
import type { Backend } from '../backends/backend.js';
import { CsiError } from '../base/errors.js';
import type { Logger } from '../base/logger.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { NewRetainedBase, RetainedBaseRecord, SnapshotRecord } from '../catalogue/records.js';
import { type OperationLocks, snapshotKey } from './operation-locks.js';
import { judgeBases, type RetainedBaseLimits, type Verdict } from './retention.js';

export interface RetainedBasesDependencies {
  catalogue: AsyncCatalogue;
  locks: OperationLocks;
  limits: RetainedBaseLimits;
  logger: Logger;
}

export class RetainedBases {
  constructor(private readonly deps: RetainedBasesDependencies) {}

  /**
   * Removes snapshots from their pool and returns the bases to record when the snapshots' rows go. The
   * caller holds the locks of the snapshots. Can be killed anywhere and called again.
   *
   * A snapshot of which nothing can be retained is deleted all the same: otherwise a full pool could not
   * be emptied.
   */
  async removeSnapshots(
    backend: Backend,
    snapshots: readonly SnapshotRecord[],
  ): Promise<NewRetainedBase[]> {
    const bases: NewRetainedBase[] = [];
    for (const snapshot of snapshots) {
      const retained = await this.#retain(backend, snapshot);
      await backend.deleteSnapshot(snapshot.snapshotId);
      if (retained === null) continue;
      bases.push(retained.base);
      if (retained.failure !== null) this.#logInvalidated(snapshot, retained.failure);
    }
    return bases;
  }

  /** As `settle`, after a deletion. A failure is logged, because the deletion itself has succeeded. */
  async prune(backend: Backend): Promise<void> {
    try {
      await this.settle(backend);
    } catch (thrown) {
      const { logger } = this.deps;
      logger.warn(
        { pool: backend.pool, err: thrown },
        'could not apply the limits of retained bases; the next deletion or start tries again',
      );
    }
  }

  /**
   * Makes the catalogue and the pool agree on the retained bases, and removes those over the limits.
   * Skips bases that are being read, created or removed at the moment; the next call handles them.
   */
  async settle(backend: Backend): Promise<void> {
    const { catalogue, limits } = this.deps;
    // In this order, because a base that is created in between is in the pool before it has a record.
    const records = await catalogue.listRetainedBases(backend.pool);
    const held = await backend.retainedBases();
    const nowNs = now();
    for (const verdict of judgeBases({ records, held, limits, nowNs })) {
      await this.#carryOut(backend, verdict);
    }
    const valid = records.filter(({ invalidated }) => invalidated === null);
    const recorded = new Set(valid.map(idOf));
    const unrecorded = [...held.usable, ...held.invalidated]
      .map(idOf)
      .filter((id) => !recorded.has(id));
    for (const snapshotId of unrecorded) await this.#dropUnrecorded(backend, snapshotId);
  }

  async #retain(
    backend: Backend,
    { snapshotId, creationTimeNs }: SnapshotRecord,
  ): Promise<{ base: NewRetainedBase; failure: CsiError | null } | null> {
    // A creation time of 0: the snapshot was never completed, so no caller has seen it.
    if (this.deps.limits.perVolume === 0 || creationTimeNs === 0n) return null;
    const base = { snapshotId, deletedNs: now(), storedBytes: 0n, invalidReason: null };
    try {
      const retained = await backend.retainBase(snapshotId);
      if (retained === null) return null;
      return { base: { ...base, storedBytes: retained.storedBytes }, failure: null };
    } catch (thrown) {
      const failure = CsiError.from(thrown);
      const invalidReason = `it could not be retained when it was deleted: ${failure.message}`;
      return { base: { ...base, invalidReason }, failure };
    }
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
        await backend.dropBase(snapshotId);
        await catalogue.removeRetainedBase(snapshotId);
      } else if (found.invalidated === null) {
        const { reason, expected } = invalidation;
        await catalogue.invalidateRetainedBase(snapshotId, reason, now());
        await backend.dropBase(snapshotId);
        if (expected) this.#logExpired(record, reason);
        else this.#logInvalidated(record, CsiError.failedPrecondition(reason));
      }
    });
  }

  /**
   * Removes a base that the pool holds and no record names: a kill came between the two, or the catalogue
   * was restored from a backup.
   */
  async #dropUnrecorded(backend: Backend, snapshotId: string): Promise<void> {
    const { catalogue, locks } = this.deps;
    const key = snapshotKey(snapshotId);
    if (locks.isBusy(key)) return;
    await locks.run([key], async () => {
      // The snapshot still has a row: its deletion is unfinished, and records the base.
      if ((await catalogue.snapshotById(snapshotId)) !== null) return;
      const record = await catalogue.retainedBaseById(snapshotId);
      if (record === null || record.invalidated !== null) await backend.dropBase(snapshotId);
    });
  }

  #logExpired({ snapshotId, volumeId, pool }: RetainedBaseRecord, reason: string): void {
    const { logger } = this.deps;
    logger.info({ snapshotId, volumeId, pool, reason }, 'a retained base has expired');
  }

  #logInvalidated(
    { snapshotId, volumeId, pool }: Pick<SnapshotRecord, 'snapshotId' | 'volumeId' | 'pool'>,
    { message: reason, cause }: CsiError,
  ): void {
    this.deps.logger.warn(
      { snapshotId, volumeId, pool, reason, ...(cause === undefined ? {} : { err: cause }) },
      'a retained base is invalid: the next backup based on it has to be a full one',
    );
  }
}

const idOf = ({ snapshotId }: { snapshotId: string }): string => snapshotId;

const now = (): bigint => BigInt(Date.now()) * 1_000_000n;
