/**
 * The volumes of a thin pool: made, copied, expanded, removed, as devices of the pool's metadata and rows
 * of its ledger. Of block devices it knows volume-devices.ts.
 */
import { CsiError, errorCode } from '../../base/errors.js';
import type { StorageCondition } from '../backend.js';
import type { DeviceRecord, NewDevice } from './ledger/ledger.js';
import type { AsyncLedger } from './ledger/ledger-client.js';
import { lostSnapshot, lostVolume } from './lost-objects.js';
import type { MetadataReader } from './metadata/metadata-reader.js';
import type { PoolTransactions } from './pool/pool-transaction.js';
import type { ThinPool } from './pool/thin-pool.js';
import type { ThinCopies } from './thin-copies.js';
import type { VolumeDevices } from './volume-devices.js';

export interface VolumeDependencies {
  ledger: AsyncLedger;
  pool: ThinPool;
  look: MetadataReader;
  transactions: PoolTransactions;
  devices: VolumeDevices;
  cuts: ThinCopies;
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
    if (await this.#isThere(volumeId, sizeBytes)) return;
    await this.#make(volumeId, sizeBytes, async ({ deviceId }) => `create_thin ${deviceId}`);
  }

  /** Nobody uses a snapshot's device, so nothing has to be held still. */
  async restore(volumeId: string, snapshot: DeviceRecord, sizeBytes: bigint): Promise<void> {
    if (await this.#isThere(volumeId, sizeBytes)) return;
    assertHolds(volumeId, sizeBytes, snapshot);
    const message = async ({ deviceId }: DeviceRecord): Promise<string> => {
      await this.deps.cuts.assertTimeLeft(1);
      return `create_snap ${deviceId} ${snapshot.deviceId}`;
    };
    try {
      await this.#make(volumeId, sizeBytes, message);
    } catch (thrown) {
      if (errorCode(thrown) !== 'ENODATA') throw thrown;
      throw lostSnapshot(snapshot.objectId, this.deps.pool.pool, thrown);
    }
  }

  async clone(volumeId: string, sourceVolumeId: string, sizeBytes: bigint): Promise<void> {
    if (await this.#isThere(volumeId, sizeBytes)) return;
    const source = await this.record(sourceVolumeId);
    assertHolds(volumeId, sizeBytes, source);
    await this.deps.cuts.cut([{ source, copy: newVolume(volumeId, sizeBytes) }]);
  }

  async expand(volumeId: string, sizeBytes: bigint): Promise<bigint> {
    const { ledger, devices, pool } = this.deps;
    // First the ledger: what a kill leaves undone, the next attach does.
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

  /** By the ledger: a device that the pool has lost cannot be activated, which is seen when it is. */
  async check(volumeId: string, sizeBytes: bigint): Promise<void> {
    const record = await this.record(volumeId);
    if (record.sizeBytes >= sizeBytes) return;
    throw CsiError.failedPrecondition(
      `volume ${volumeId} should have ${sizeBytes} bytes, and the ledger of pool ` +
        `'${this.deps.pool.pool}' says ${record.sizeBytes}; bring catalogue and ledger of one moment together`,
    );
  }

  async condition(volumeId: string): Promise<StorageCondition> {
    const { ledger, look, devices, pool } = this.deps;
    await pool.status();
    const record = await ledger.device(volumeId);
    const found = record === null ? null : await look.device(record.deviceId);
    if (record !== null && found?.transactionId === record.madeAt) {
      return { storedBytes: record.sizeBytes, runsOnRemoved: false };
    }
    return { storedBytes: null, runsOnRemoved: (await devices.find(volumeId)) !== null };
  }

  async #make(
    volumeId: string,
    sizeBytes: bigint,
    message: (made: DeviceRecord) => Promise<string>,
  ): Promise<void> {
    const { pool, transactions } = this.deps;
    await transactions.create([newVolume(volumeId, sizeBytes)], async (made) => {
      await pool.tell(await Promise.all(made.map(message)));
    });
  }

  async #isThere(volumeId: string, sizeBytes: bigint): Promise<boolean> {
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
    `volume ${volumeId} would have ${sizeBytes} bytes, and what it is a copy of has ${source.sizeBytes}`,
  );
}
