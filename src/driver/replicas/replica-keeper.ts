/**
 * Removes replicas that nobody needs any more. A replica is a cache: the newest one of each volume stays for a week after its
 * last use, because the next pull of the volume starts from it, and all others for an hour. A pull that no call waits for stays
 * for an hour, too. A pool with little free space frees the least recently used replicas first, long before it touches anything
 * else, but none that is being pulled or that a call has asked for in the last minutes. Then it ends the transfers of deleted
 * snapshots, whose bytes nothing else holds.
 *
 * A replica that is promised may be the last copy of its snapshot. No rule removes it: neither age nor space, and not the loss of
 * its row, because the pool holds the promise too.
 */
import { bestEffort } from '../../base/best-effort.js';
import { CsiError, StatusCode } from '../../base/errors.js';
import type { Logger } from '../../base/logger.js';
import { Periodic } from '../../base/periodic.js';
import type { Backend } from '../backends/backend.js';
import type { BackendRegistry } from '../backends/registry.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { ReplicaRecord } from '../catalogue/records.js';
import { type OperationLocks, snapshotKey } from '../volumes/operation-locks.js';
import type { OpenTransfers } from './open-transfers.js';
import { type Pulls, replicaReserve } from './pulls.js';

export interface ReplicaKeeperOptions {
  catalogue: Pick<AsyncCatalogue, 'listReplicas' | 'replicaById' | 'replicaPromised' | 'removeReplica'>;
  registry: BackendRegistry;
  locks: OperationLocks;
  pulls: Pick<Pulls, 'isRunning'>;
  transfers: Pick<OpenTransfers, 'count' | 'endDeleted'>;
  /** Whether the catalogue has lost rows: then nothing is removed, because its record may be lost. */
  lacksRows(): boolean;
  logger: Pick<Logger, 'info' | 'warn'>;
  now?: () => number;
}

const INTERVAL_MS = 5000;
const HOUR_MS = 3_600_000;
const NEWEST_MS = 7 * 24 * HOUR_MS;
const OTHERS_MS = HOUR_MS;
const ASKED_MS = 15 * 60_000;

export class ReplicaKeeper extends Periodic {
  constructor(private readonly options: ReplicaKeeperOptions) {
    super(INTERVAL_MS, () => this.round());
  }

  /** Never rejects. */
  async round(): Promise<void> {
    const { catalogue, registry, transfers, logger, lacksRows } = this.options;
    if (lacksRows()) return;
    const report = (pool?: string) => (thrown: unknown) =>
      logger.warn({ pool, err: CsiError.from(thrown) }, 'could not review the replicas');
    let all: readonly ReplicaRecord[] = [];
    await bestEffort(async () => {
      all = await catalogue.listReplicas();
    }, report());
    for (const backend of registry.all) {
      const records = all.filter(({ pool }) => pool === backend.pool);
      if (records.length > 0 || transfers.count > 0)
        await bestEffort(() => this.#keep(backend, records), report(backend.pool));
    }
  }

  /**
   * Promises a complete replica to the node of its snapshot. NOT_FOUND if there is none. ABORTED while it is in use, and if it was
   * promised for a later choice: a router that is late does not know that this one was given up.
   */
  async promise(snapshotId: string, promiseId: string): Promise<void> {
    const { catalogue, locks, registry } = this.options;
    await locks.run([snapshotKey(snapshotId)], async () => {
      const record = await catalogue.replicaById(snapshotId);
      const { replicas } = record?.nextOffset === null ? registry.owning(record.pool) : {};
      if (replicas === undefined)
        throw CsiError.notFound(`this node has no complete replica of snapshot ${snapshotId}`);
      if ((record?.promiseId ?? '') > promiseId)
        throw CsiError.aborted(`the replica of snapshot ${snapshotId} is promised for a later choice`);
      await replicas.promise(snapshotId, promiseId);
      await catalogue.replicaPromised(snapshotId, promiseId);
    });
  }

  /**
   * Removes the replica that is kept for this promise, or that is promised to nobody: a router that is late would promise it
   * otherwise, after the end. Succeeds if there is none. ABORTED while it is in use.
   *
   * @param promiseId null: the complete replica goes, whatever it is promised to, because its snapshot was deleted
   */
  async endPromise(snapshotId: string, promiseId: string | null): Promise<void> {
    const { catalogue, locks, registry } = this.options;
    await locks.run([snapshotKey(snapshotId)], async () => {
      this.#assertNotPulled(snapshotId);
      // The pools, not the rows, which may be lost.
      for (const { replicas } of registry.all) {
        const held = (await replicas?.list())?.find((each) => each.snapshotId === snapshotId);
        if (held === undefined) continue;
        const isMeant = promiseId === null ? held.isComplete : held.promiseId === null || held.promiseId === promiseId;
        if (!isMeant) continue;
        await replicas?.delete(snapshotId);
        await catalogue.removeReplica(snapshotId);
      }
    });
  }

  /**
   * Removes a replica with its row, the row last, unless it is promised. ABORTED while it is in use. Resolves to whether there is
   * none any more.
   */
  async remove(snapshotId: string): Promise<boolean> {
    const { catalogue, locks, registry } = this.options;
    return locks.run([snapshotKey(snapshotId)], async () => {
      this.#assertNotPulled(snapshotId);
      const record = await catalogue.replicaById(snapshotId);
      if (record === null) return true;
      if (record.promiseId !== null) return false;
      await registry.owning(record.pool).replicas?.delete(snapshotId);
      await catalogue.removeReplica(snapshotId);
      return true;
    });
  }

  #assertNotPulled(snapshotId: string): void {
    if (!this.options.pulls.isRunning(snapshotId)) return;
    throw CsiError.aborted(`snapshot ${snapshotId} is being pulled; try again later`);
  }

  async #keep(backend: Backend, records: readonly ReplicaRecord[]): Promise<void> {
    const { logger, transfers } = this.options;
    const outdated = new Set(this.#outdated(records));
    for (const { snapshotId } of outdated) await this.#tryRemove(snapshotId);
    const byUse = records.filter((each) => !outdated.has(each)).sort((a, b) => (a.usedNs < b.usedNs ? -1 : 1));
    for (const record of byUse) {
      if (!(await isLow(backend))) return;
      if (this.#ageMs(record.askedNs) < ASKED_MS || !(await this.#tryRemove(record.snapshotId))) continue;
      logger.info({ snapshot: record.snapshotId, pool: backend.pool }, 'a replica was freed for space');
    }
    if (transfers.count > 0 && (await isLow(backend))) await transfers.endDeleted(backend.pool);
  }

  #outdated(records: readonly ReplicaRecord[]): ReplicaRecord[] {
    const newest = new Map<string, ReplicaRecord>();
    for (const record of records) if (record.nextOffset === null) newest.set(record.volumeId, record);
    return records.filter((record) => {
      const isNewest = newest.get(record.volumeId) === record;
      return Math.min(this.#ageMs(record.usedNs), this.#ageMs(record.askedNs)) >= (isNewest ? NEWEST_MS : OTHERS_MS);
    });
  }

  /**
   * Makes the rows and the replicas of a pool agree, before calls are served. A row that is not complete beside a replica that is
   * stays, and so does a promised replica without a row: the next call for the snapshot finds it (pulls.ts). Never rejects.
   */
  async settle(backend: Backend): Promise<void> {
    const { catalogue, logger, lacksRows } = this.options;
    const { replicas, pool } = backend;
    if (replicas === undefined || lacksRows()) return;
    try {
      const records = (await catalogue.listReplicas()).filter((record) => record.pool === pool);
      const held = new Map((await replicas.list()).map((each) => [each.snapshotId, each]));
      for (const { snapshotId, nextOffset, promiseId } of records) {
        const found = held.get(snapshotId);
        held.delete(snapshotId);
        if (found !== undefined && (found.isComplete || nextOffset !== null)) {
          // Of an earlier catalogue, or a promise whose row was not written.
          if (found.promiseId !== promiseId) await catalogue.replicaPromised(snapshotId, found.promiseId);
          continue;
        }
        logger.warn(
          { snapshot: snapshotId, pool },
          'a replica is gone from its pool, or is not whole; it is pulled again',
        );
        await replicas.delete(snapshotId);
        await catalogue.removeReplica(snapshotId);
      }
      for (const { snapshotId, promiseId } of held.values()) if (promiseId === null) await replicas.delete(snapshotId);
    } catch (thrown) {
      logger.warn({ pool, err: CsiError.from(thrown) }, 'could not compare the replicas of a pool with their rows');
    }
  }

  async #tryRemove(snapshotId: string): Promise<boolean> {
    return this.remove(snapshotId).catch((thrown) => {
      if (CsiError.from(thrown).code !== StatusCode.ABORTED) throw thrown;
      return false;
    });
  }

  #ageMs(timeNs: bigint): number {
    return (this.options.now ?? Date.now)() - Number(timeNs / 1_000_000n);
  }
}

async function isLow(backend: Backend): Promise<boolean> {
  const { totalBytes, freeBytes } = await backend.capacity('recent');
  return freeBytes < replicaReserve(totalBytes);
}
