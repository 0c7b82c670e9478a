/**
 * The volumes of a thin pool: creates, copies, expands and deletes them, as devices of the pool's metadata
 * and rows of its ledger. Leaves block devices to volume-devices.ts.
 */
import { CsiError, errorCode } from '../../../base/errors.js';
import type { StorageCondition } from '../backend.js';
import { lostSnapshot, lostVolume } from '../lost-objects.js';
import type { DeviceRecord, NewDevice } from './ledger/ledger.js';
import type { AsyncLedger } from './ledger/ledger-client.js';
import type { MetadataReader } from './metadata/metadata-reader.js';
import type { PoolTransactions } from './pool/pool-transaction.js';
import type { ThinPool } from './pool/thin-pool.js';
import type { ThinCopies } from './thin-copies.js';
import type { VolumeDevices } from './volume-devices.js';

export interface VolumeDependencies {
  ledger: AsyncLedger;
  pool: ThinPool;
  metadata: MetadataReader;
  transactions: PoolTransactions;
  devices: VolumeDevices;
  copies: ThinCopies;
}

export class ThinVolumes {
  constructor(private readonly deps: VolumeDependencies) {}

  /** FAILED_PRECONDITION if the pool has lost it. */
  async record(volumeId: string): Promise<DeviceRecord> {
    const record = await this.deps.ledger.device(volumeId);
    if (record?.kind === 'volume') return record;
    throw lostVolume(volumeId, this.deps.pool.pool);
  }

  async create(volumeId: string, sizeBytes: bigint): Promise<void> {
    if (await this.#exists(volumeId, sizeBytes)) return;
    await this.#create(volumeId, sizeBytes, async ({ deviceId }) => `create_thin ${deviceId}`);
  }

  /** A snapshot's device is never active, so nothing has to be suspended. */
  async restore(volumeId: string, snapshot: DeviceRecord, sizeBytes: bigint): Promise<void> {
    if (await this.#exists(volumeId, sizeBytes)) return;
    assertHolds(volumeId, sizeBytes, snapshot);
    const message = async ({ deviceId }: DeviceRecord): Promise<string> => {
      await this.deps.copies.assertTimeLeft(1);
      return `create_snap ${deviceId} ${snapshot.deviceId}`;
    };
    try {
      await this.#create(volumeId, sizeBytes, message);
    } catch (thrown) {
      if (errorCode(thrown) !== 'ENODATA') throw thrown;
      throw lostSnapshot(snapshot.objectId, this.deps.pool.pool, thrown);
    }
  }

  async clone(volumeId: string, sourceVolumeId: string, sizeBytes: bigint): Promise<void> {
    if (await this.#exists(volumeId, sizeBytes)) return;
    const source = await this.record(sourceVolumeId);
    assertHolds(volumeId, sizeBytes, source);
    await this.deps.copies.take([{ source, copy: newVolume(volumeId, sizeBytes) }]);
  }

  async expand(volumeId: string, sizeBytes: bigint): Promise<bigint> {
    const { ledger, devices, pool } = this.deps;
    // The ledger first: after a kill, the next attach grows the device.
    const grown = await ledger.growVolume(volumeId, sizeBytes);
    if (grown === null) throw lostVolume(volumeId, pool.pool);
    const device = await devices.grow(await this.record(volumeId));
    return device === null ? grown : device.sizeBytes;
  }

  async delete(volumeId: string): Promise<void> {
    const { devices, ledger, transactions } = this.deps;
    await devices.detach(volumeId);
    await transactions.settle();
    if ((await ledger.device(volumeId)) !== null) await transactions.delete(volumeId);
    await ledger.unmarkInitialized(volumeId);
  }

  /** By the ledger alone: if the pool has lost the device, attaching it fails. */
  async check(volumeId: string, sizeBytes: bigint): Promise<void> {
    const record = await this.record(volumeId);
    if (record.sizeBytes >= sizeBytes) return;
    throw CsiError.failedPrecondition(
      `volume ${volumeId} should have ${sizeBytes} bytes, but the ledger of pool ` +
        `'${this.deps.pool.pool}' has ${record.sizeBytes}; restore catalogue and ledger from the same point in time`,
    );
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

  async #create(
    volumeId: string,
    sizeBytes: bigint,
    message: (created: DeviceRecord) => Promise<string>,
  ): Promise<void> {
    const { pool, transactions } = this.deps;
    await transactions.create([newVolume(volumeId, sizeBytes)], async (created) => {
      await pool.send(await Promise.all(created.map(message)));
    });
  }

  async #exists(volumeId: string, sizeBytes: bigint): Promise<boolean> {
    const { ledger, transactions } = this.deps;
    await transactions.settle();
    const record = await ledger.device(volumeId);
    if (record === null) return false;
    if (record.sizeBytes === sizeBytes) return true;
    throw CsiError.internal(
      `volume ${volumeId} has ${record.sizeBytes} bytes where ${sizeBytes} were expected`,
    );
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
