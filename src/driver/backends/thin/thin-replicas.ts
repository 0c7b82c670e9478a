/**
 * The replicas of a thin pool: frozen copies of snapshots of other nodes. Knows no nodes, no lists and no transfers.
 *
 * A pull writes the replica's device. The replica is complete once it has a seal: a snapshot of the device that is never
 * activated, and the origin of all that is made from the replica. As long as nobody writes to one of the two, their mapping trees
 * have the same root. A write or discard moves the root of the one, and never back: the other one holds the block. (Every mapping
 * is older than the seal, so that the kernel does not write in place.) So equal roots prove that both are as they were sealed.
 */
import { type FileHandle, open } from 'node:fs/promises';
import { CsiError, errorCode } from '../../../base/errors.js';
import type { ThinPoolStatus } from '../../native/dm-addon.js';
import type { NativeRunner } from '../../native/pool.js';
import type { OpenSnapshot, PoolReplicas, Replica, ReplicaDevice } from '../backend.js';
import { changedReplica, flushed, isBegun, notPromised, punch } from '../replica-rules.js';
import type { DeviceRecord } from './ledger/ledger.js';
import { isWritable } from './pool/pool-health.js';
import type { PoolParts } from './pool-parts.js';
import type { ThinCopies } from './thin-copies.js';
import { openCopy } from './thin-snapshots.js';

export interface ReplicaDependencies extends PoolParts {
  native: NativeRunner;
  copies: ThinCopies;
  /** Opens a device; a test without devices has another one. */
  openDevice?: (path: string) => Promise<Pick<FileHandle, 'sync' | 'close'>>;
}

const SUFFIX = '.replica';
const replicaId = (snapshotId: string): string => `${snapshotId}${SUFFIX}`;
const sealId = (snapshotId: string): string => `${snapshotId}.seal`;

export class ThinReplicas implements PoolReplicas {
  constructor(private readonly deps: ReplicaDependencies) {}

  /** A pool grows as it fills up. */
  async makeRoom(): Promise<void> {}

  async begin(snapshotId: string, sizeBytes: bigint, baseId: string | null): Promise<void> {
    const { copies, pool, transactions } = this.deps;
    await transactions.settle();
    const { replica, seal } = await recordsOf(this.deps, snapshotId);
    const known = replica === null ? null : { sizeBytes: replica.sizeBytes, isComplete: seal !== null };
    if (isBegun(pool.pool, snapshotId, known, sizeBytes)) return;
    const base = baseId === null ? null : await sealOf(this.deps, baseId);
    if (base !== null && base.sizeBytes > sizeBytes) {
      throw CsiError.internal(`a replica of ${sizeBytes} bytes was begun from one of ${base.sizeBytes}`);
    }
    const objectId = replicaId(snapshotId);
    await copies.fork({ objectId, kind: 'replica', sizeBytes, lineage: objectId }, base).catch((thrown) => {
      throw baseId === null ? thrown : this.#explain(baseId, thrown);
    });
  }

  async open(snapshotId: string): Promise<ReplicaDevice> {
    const { devices, ledger, native, pool } = this.deps;
    const record = await this.#unfinished(snapshotId);
    const { objectId } = record;
    const activate = () =>
      devices.activate(record, false).catch((thrown) => {
        throw this.#explain(snapshotId, thrown);
      });
    const { path } = (await devices.device(objectId)) ?? (await activate());
    const { dataBlockBytes: blockBytes } = await ledger.pool();
    const holder = await (this.deps.openDevice ?? open)(path);
    return {
      path,
      punch: async (ranges) => {
        const before = await pool.status();
        await punch(native, { path, objectId, blockBytes }, ranges);
        if (hasKeptDiscards(before, await pool.status())) return;
        throw CsiError.aborted(
          `pool '${pool.pool}' was read-only for a while, so it may have ignored that ranges were freed; try again`,
        );
      },
      flush: () => flushed({ flush: () => holder.sync() }, snapshotId, pool.pool),
      close: async () => {
        await holder.close();
        await devices.release(objectId);
      },
    };
  }

  async openComplete(snapshotId: string): Promise<OpenSnapshot> {
    return openCopy(this.deps, snapshotId, await sealOf(this.deps, snapshotId));
  }

  /** The last close of the device has written everything to the pool, and the message that makes the seal commits it. */
  async complete(snapshotId: string): Promise<void> {
    const { copies, devices, transactions } = this.deps;
    await transactions.settle();
    if ((await recordsOf(this.deps, snapshotId)).seal !== null) return;
    const replica = await this.#unfinished(snapshotId);
    await devices.release(replica.objectId);
    const objectId = sealId(snapshotId);
    const { sizeBytes, lineage } = replica;
    await copies.fork({ objectId, kind: 'seal', sizeBytes, lineage }, replica).catch((thrown) => {
      throw this.#explain(snapshotId, thrown);
    });
  }

  async promise(snapshotId: string, promiseId: string): Promise<void> {
    const { replica, seal } = await recordsOf(this.deps, snapshotId);
    if (replica === null || seal === null) throw notPromised(snapshotId, this.deps.pool.pool);
    await this.deps.ledger.setPromise(replica.objectId, promiseId);
  }

  async delete(snapshotId: string): Promise<void> {
    const { devices, transactions } = this.deps;
    await devices.release(replicaId(snapshotId));
    await transactions.settle();
    const { replica, seal } = await recordsOf(this.deps, snapshotId);
    const ids = [seal, replica].flatMap((record) => record?.objectId ?? []);
    if (ids.length > 0) await transactions.delete(...ids);
  }

  async check(snapshotId: string, sizeBytes: bigint): Promise<void> {
    const seal = await sealOf(this.deps, snapshotId);
    if (seal.sizeBytes !== sizeBytes) throw changedReplica(snapshotId, this.deps.pool.pool);
  }

  async list(): Promise<Replica[]> {
    const { metadata } = this.deps;
    const records = await this.#all();
    const found = await metadata.unconfirmedDevices(records.map(({ deviceId }) => deviceId));
    const there = records.filter(({ deviceId, madeAt }) => found.get(deviceId)?.transactionId === madeAt);
    const ids = new Set(there.map(({ objectId }) => objectId));
    return there
      .filter(({ kind }) => kind === 'replica')
      .map(({ objectId, sizeBytes, promiseId }) => {
        const snapshotId = objectId.slice(0, -SUFFIX.length);
        return { snapshotId, sizeBytes, isComplete: ids.has(sealId(snapshotId)), promiseId };
      });
  }

  /** Deactivates the devices that killed pulls have left active. */
  async sweep(): Promise<void> {
    for (const { kind, objectId } of await this.#all())
      if (kind === 'replica') await this.deps.devices.release(objectId);
  }

  async #all(): Promise<DeviceRecord[]> {
    const devices = await this.deps.ledger.devices();
    return devices.filter(({ kind, state }) => (kind === 'replica' || kind === 'seal') && state === 'live');
  }

  async #unfinished(snapshotId: string): Promise<DeviceRecord> {
    const { replica, seal } = await recordsOf(this.deps, snapshotId);
    if (replica !== null && seal === null) return replica;
    const { pool } = this.deps.pool;
    throw CsiError.failedPrecondition(`pool '${pool}' has no unfinished replica of snapshot ${snapshotId}`);
  }

  #explain(snapshotId: string, thrown: unknown): unknown {
    return errorCode(thrown) === 'ENODATA' ? changedReplica(snapshotId, this.deps.pool.pool, thrown) : thrown;
  }
}

/** The seal of a complete replica, from which copies are made. FAILED_PRECONDITION if the replica may have been modified. */
export async function sealOf(
  parts: Pick<PoolParts, 'ledger' | 'metadata' | 'pool'>,
  snapshotId: string,
): Promise<DeviceRecord> {
  const { replica, seal } = await recordsOf(parts, snapshotId);
  if (replica !== null && seal !== null) {
    const found = await parts.metadata.devices([replica.deviceId, seal.deviceId]);
    const [one, other] = [replica, seal].map(({ deviceId, madeAt }) => {
      const device = found.get(deviceId);
      return device?.transactionId === madeAt ? device.root : null;
    });
    if (one !== null && one === other) return seal;
  }
  throw changedReplica(snapshotId, parts.pool.pool);
}

async function recordsOf(
  { ledger }: Pick<PoolParts, 'ledger'>,
  snapshotId: string,
): Promise<{ replica: DeviceRecord | null; seal: DeviceRecord | null }> {
  return {
    replica: await ledger.device(replicaId(snapshotId)),
    seal: await ledger.device(sealId(snapshotId)),
  };
}

/**
 * Whether the pool has carried out all discards in between. A pool that is read-only answers them and does nothing. One that is
 * read-only for lack of metadata becomes writable again when its metadata grows, and only then.
 */
function hasKeptDiscards(before: ThinPoolStatus, after: ThinPoolStatus): boolean {
  return isWritable(before) && isWritable(after) && before.totalMetadataBlocks === after.totalMetadataBlocks;
}
