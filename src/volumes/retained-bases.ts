/**
 * What is kept of deleted snapshots, so that a delta can still be counted from them: which are kept,
 * for how long, and what is told when one is lost.
 *
 * Only the pool knows how a base is kept and whether a delta from it would still be sound; here is how
 * many there may be. A base that is lost leaves a record of the reason for a while, because the backup
 * tool that asks for it next wants to know.
 */
import type { Backend } from '../backends/backend.js';
import { CsiError } from '../base/errors.js';
import type { Logger } from '../base/logger.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { Remains, RetainedBaseRecord, SnapshotRecord } from '../catalogue/records.js';
import { type OperationLocks, snapshotKey } from './operation-locks.js';
import { type RetainedBaseLimits, settleRecords, type Verdict } from './retention.js';

export interface RetainedBasesDependencies {
  catalogue: AsyncCatalogue;
  locks: OperationLocks;
  limits: RetainedBaseLimits;
  logger: Logger;
}

export class RetainedBases {
  constructor(private readonly deps: RetainedBasesDependencies) {}

  /**
   * Removes snapshots from their pool and returns what to write down when their rows go. Callers hold
   * the locks of the snapshots. May be killed anywhere and called again.
   *
   * What cannot be kept is deleted all the same: a pool without space could not be emptied otherwise.
   */
  async removeSnapshots(
    backend: Backend,
    snapshots: readonly SnapshotRecord[],
  ): Promise<Remains[]> {
    const remains: Remains[] = [];
    for (const snapshot of snapshots) {
      const kept = await this.#keep(backend, snapshot);
      await backend.deleteSnapshot(snapshot.snapshotId);
      if (kept === null) continue;
      remains.push(kept.remains);
      if (kept.failure !== null) this.#logInvalidated(snapshot, kept.failure);
    }
    return remains;
  }

  /** Drops what is over the limits or useless, after a deletion. A failure is told, and no failure of the deletion. */
  async prune(backend: Backend): Promise<void> {
    try {
      await this.settle(backend);
    } catch (thrown) {
      const { logger } = this.deps;
      logger.warn({ pool: backend.pool, err: thrown }, 'kept bases could not be looked through');
    }
  }

  /**
   * Makes the catalogue and the pool agree on what is kept, and drops what is over the limits. What is
   * being read, kept or dropped at the moment is left to the next time.
   */
  async settle(backend: Backend): Promise<void> {
    const { catalogue, limits } = this.deps;
    // In this order: what is kept meanwhile is in the pool before it has a record.
    const records = await catalogue.listRetainedBases(backend.pool);
    const held = await backend.retainedBases();
    const nowNs = now();
    for (const verdict of settleRecords({ records, held, limits, nowNs })) {
      await this.#carryOut(backend, verdict);
    }
    const recorded = new Set(records.filter(({ lost }) => lost === null).map(idOf));
    const unrecorded = [...held.usable, ...held.lost].map(idOf).filter((id) => !recorded.has(id));
    for (const snapshotId of unrecorded) await this.#dropUnrecorded(backend, snapshotId);
  }

  async #keep(
    backend: Backend,
    { snapshotId, creationTimeNs }: SnapshotRecord,
  ): Promise<{ remains: Remains; failure: CsiError | null } | null> {
    // Nobody has ever seen a snapshot that was not cut to the end.
    if (this.deps.limits.perVolume === 0 || creationTimeNs === 0n) return null;
    const remains = { snapshotId, deletedNs: now(), storedBytes: 0n, lostReason: null };
    try {
      const kept = await backend.retainBase(snapshotId);
      if (kept === null) return null;
      return { remains: { ...remains, storedBytes: kept.storedBytes }, failure: null };
    } catch (thrown) {
      const failure = CsiError.from(thrown);
      const lostReason = `what deltas need of it could not be kept: ${failure.message}`;
      return { remains: { ...remains, lostReason }, failure };
    }
  }

  /** Under the lock that streams share, so that none loses its base; whoever is busy with it goes first. */
  async #carryOut(backend: Backend, { record, loss }: Verdict): Promise<void> {
    const { catalogue, locks } = this.deps;
    const { snapshotId } = record;
    const key = snapshotKey(snapshotId);
    if (locks.isBusy(key)) return;
    await locks.run([key], async () => {
      const found = await catalogue.retainedBaseById(snapshotId);
      if (found === null) return;
      if (loss === null) {
        await backend.dropBase(snapshotId);
        await catalogue.removeRetainedBase(snapshotId);
      } else if (found.lost === null) {
        await catalogue.invalidateRetainedBase(snapshotId, loss.reason, now());
        await backend.dropBase(snapshotId);
        if (loss.expected) this.#tellExpiry(record, loss.reason);
        else this.#logInvalidated(record, CsiError.failedPrecondition(loss.reason));
      }
    });
  }

  /** What a kill has left between the two, and what a catalogue restored from a backup does not know. */
  async #dropUnrecorded(backend: Backend, snapshotId: string): Promise<void> {
    const { catalogue, locks } = this.deps;
    const key = snapshotKey(snapshotId);
    if (locks.isBusy(key)) return;
    await locks.run([key], async () => {
      // Its deletion is unfinished, or has to be repeated.
      if ((await catalogue.snapshotById(snapshotId)) !== null) return;
      const record = await catalogue.retainedBaseById(snapshotId);
      if (record === null || record.lost !== null) await backend.dropBase(snapshotId);
    });
  }

  #tellExpiry({ snapshotId, volumeId, pool }: RetainedBaseRecord, reason: string): void {
    const { logger } = this.deps;
    logger.info({ snapshotId, volumeId, pool, reason }, 'a kept base has expired');
  }

  #logInvalidated(
    { snapshotId, volumeId, pool }: Pick<SnapshotRecord, 'snapshotId' | 'volumeId' | 'pool'>,
    { message: reason, cause }: CsiError,
  ): void {
    this.deps.logger.warn(
      { snapshotId, volumeId, pool, reason, ...(cause === undefined ? {} : { err: cause }) },
      'the base of later deltas is lost: the next backup from it has to be a full one',
    );
  }
}

const idOf = ({ snapshotId }: { snapshotId: string }): string => snapshotId;

const now = (): bigint => BigInt(Date.now()) * 1_000_000n;
