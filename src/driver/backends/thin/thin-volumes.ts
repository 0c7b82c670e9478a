/**
 * The volumes of a thin pool: creates, copies, expands and deletes them, as devices of the pool's metadata
 * and rows of its ledger. Leaves block devices to volume-devices.ts.
 */
import { CsiError, errorCode } from '../../../base/errors.js';
import type { FileSystem } from '../../host/file-systems.js';
import { recognizedFileSystem } from '../../host/superblock.js';
import type { PoolObjectId, PoolVolumes, StorageCondition } from '../backend.js';
import { lostSnapshot, lostVolume } from '../lost-objects.js';
import { changedReplica } from '../replica-rules.js';
import { assertWhole, snapshotRecord, volumeRecord } from './device-records.js';
import type { DeviceRecord, NewDevice } from './ledger/ledger.js';
import type { PoolParts } from './pool-parts.js';
import type { ThinCopies } from './thin-copies.js';
import { sealOf } from './thin-replicas.js';

export interface VolumeDependencies extends PoolParts {
  copies: ThinCopies;
}

export class ThinVolumes implements PoolVolumes {
  constructor(private readonly deps: VolumeDependencies) {}

  async create(
    volumeId: string,
    sizeBytes: bigint,
    source: PoolObjectId | null = null,
    deadline?: number,
  ): Promise<void> {
    if (await this.#exists(volumeId, sizeBytes)) return;
    const { copies, pool } = this.deps;
    const copy = newVolume(volumeId, sizeBytes);
    if (source === null) {
      await copies.fork(copy, null);
    } else if ('volumeId' in source) {
      const record = await volumeRecord(this.deps, source.volumeId);
      assertHolds(volumeId, sizeBytes, record);
      await copies.take([{ source: record, copy }], deadline);
    } else {
      // Snapshots and seals are never active, so nothing has to be suspended.
      const isReplica = 'replicaId' in source;
      const id = isReplica ? source.replicaId : source.snapshotId;
      const origin = await (isReplica ? sealOf(this.deps, id) : snapshotRecord(this.deps, id));
      assertHolds(volumeId, sizeBytes, origin);
      await copies.fork(copy, origin).catch((thrown) => {
        if (errorCode(thrown) !== 'ENODATA') throw thrown;
        throw (isReplica ? changedReplica : lostSnapshot)(id, pool.pool, thrown);
      });
    }
  }

  async expand(volumeId: string, sizeBytes: bigint): Promise<bigint> {
    const { ledger, devices, pool } = this.deps;
    // The ledger grows first, so that after a kill the next attach grows the device.
    const grown = await ledger.growVolume(volumeId, sizeBytes);
    if (grown === null) throw lostVolume(volumeId, pool.pool);
    const device = await devices.grow(await volumeRecord(this.deps, volumeId));
    return device === null ? grown : device.sizeBytes;
  }

  async delete(volumeId: string): Promise<void> {
    const { devices, ledger, transactions } = this.deps;
    await devices.detach(volumeId);
    await transactions.settle();
    if ((await ledger.device(volumeId)) !== null) await transactions.delete(volumeId);
    await ledger.unmarkInitialized(volumeId);
  }

  async check(volumeId: string, sizeBytes: bigint): Promise<void> {
    assertWhole(await volumeRecord(this.deps, volumeId), this.deps.pool.pool, sizeBytes);
  }

  async condition(volumeId: string): Promise<StorageCondition> {
    const { ledger, metadata, devices, pool } = this.deps;
    await pool.status();
    const record = await ledger.device(volumeId);
    const found = record === null ? null : await metadata.device(record.deviceId);
    if (record !== null && found?.transactionId === record.madeAt) {
      return { storedBytes: record.sizeBytes, runsOnRemoved: false };
    }
    return { storedBytes: null, runsOnRemoved: (await devices.find(volumeId)) !== null };
  }

  /** Null for a snapshot or replica, which has no device, and for a volume that is not attached. */
  async fileSystemIn(object: PoolObjectId): Promise<FileSystem | null> {
    const device = 'volumeId' in object ? await this.deps.devices.find(object.volumeId) : null;
    return device === null ? null : recognizedFileSystem(device.devicePath);
  }

  thaw(volumeId: string): Promise<void> {
    return this.deps.devices.resume(volumeId);
  }

  async #exists(volumeId: string, sizeBytes: bigint): Promise<boolean> {
    const { ledger, transactions } = this.deps;
    await transactions.settle();
    const record = await ledger.device(volumeId);
    if (record === null) return false;
    if (record.sizeBytes === sizeBytes) return true;
    throw CsiError.internal(`volume ${volumeId} has ${record.sizeBytes} bytes where ${sizeBytes} were expected`);
  }
}

function newVolume(volumeId: string, sizeBytes: bigint): NewDevice {
  return { objectId: volumeId, kind: 'volume', sizeBytes, lineage: volumeId };
}

function assertHolds(volumeId: string, sizeBytes: bigint, source: DeviceRecord): void {
  if (sizeBytes >= source.sizeBytes) return;
  throw CsiError.internal(
    `volume ${volumeId} was to have ${sizeBytes} bytes, but its source ${source.objectId} has ${source.sizeBytes}`,
  );
}
