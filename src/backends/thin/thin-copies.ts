/**
 * Cuts: copies of one or several volumes at one point in time, with all that are attached held still.
 * Whether a copy becomes a snapshot or a volume is the caller's.
 */
import { CsiError, SystemError } from '../../base/errors.js';
import { isToolAtWork } from '../../host/device-holders.js';
import type { NativeRunner } from '../../native/pool.js';
import type { DeviceRecord, NewDevice } from './ledger/ledger.js';
import { lostVolume } from './lost-objects.js';
import { MAX_TIME, type MetadataReader } from './metadata/metadata-reader.js';
import { trouble } from './pool/pool-health.js';
import type { PoolTransactions } from './pool/pool-transaction.js';
import type { ThinPool } from './pool/thin-pool.js';
import type { VolumeDevices } from './volume-devices.js';

export interface NewSnapshotFile {
  source: DeviceRecord;
  copy: NewDevice;
}

export interface SnapshotDependencies {
  native: NativeRunner;
  pool: ThinPool;
  look: MetadataReader;
  transactions: PoolTransactions;
  devices: VolumeDevices;
}

export class ThinCopies {
  constructor(private readonly deps: SnapshotDependencies) {}

  /** Wall clock of the cut, ns since the epoch. A failure leaves no copy. */
  async cut(members: readonly NewSnapshotFile[]): Promise<bigint> {
    const sources = await Promise.all(members.map(({ source }) => this.#held(source)));
    const { native, pool, transactions } = this.deps;
    const copies = members.map(({ copy }) => copy);
    try {
      return await transactions.create(copies, async (made) => {
        await this.assertTimeLeft(members.length);
        const cut = made.map(({ deviceId }, index) => ({
          deviceName: sources[index] ?? null,
          originId: (members[index] as NewSnapshotFile).source.deviceId,
          snapshotId: deviceId,
        }));
        const request = { pool: pool.names.pool, members: cut };
        return (await native.run('takeThinSnapshots', request)).takenAtNs;
      });
    } catch (thrown) {
      throw await this.#explain(thrown, members);
    }
  }

  /**
   * FAILED_PRECONDITION if the pool cannot count that many snapshots more. Asked in the pool's queue, so
   * that nobody counts on between the question and the messages.
   */
  async assertTimeLeft(snapshots: number): Promise<void> {
    const { time } = await this.deps.look.superblock();
    if (time + snapshots <= MAX_TIME) return;
    throw CsiError.failedPrecondition(
      `pool '${this.deps.pool.pool}' has counted ${time} snapshots and copies, and the kernel counts to ` +
        `${MAX_TIME}: no more can be made in it; move its volumes to a new pool`,
    );
  }

  /** The name of the device to be held still; null: nobody can be writing. */
  async #held(source: DeviceRecord): Promise<string | null> {
    const device = await this.deps.devices.find(source.objectId);
    if (device === null) return null;
    if (await isToolAtWork(device.path)) {
      throw CsiError.aborted(
        `a tool of an earlier call is still working on volume ${source.objectId}, and what it has done so ` +
          'far is no file system; try again when it has ended',
      );
    }
    return device.name;
  }

  async #explain(thrown: unknown, members: readonly NewSnapshotFile[]): Promise<unknown> {
    if (!(thrown instanceof SystemError)) return thrown;
    if (thrown.code === 'THIN_POOL_MODE') return this.#unfit(thrown);
    const { pool } = this.deps;
    if (thrown.code === 'ENODATA') {
      const lost = await this.#lostSource(members);
      return lost === null ? thrown : lostVolume(lost.objectId, pool.pool, thrown);
    }
    const volumeId = members
      .map(({ source }) => source.objectId)
      .find((id) => pool.names.volume(id) === thrown.path);
    if (thrown.code !== 'EBUSY' || volumeId === undefined) return thrown;
    return CsiError.failedPrecondition(
      `the device or file system of volume ${volumeId} is suspended or frozen by somebody else; let it ` +
        'go on first: the plugin holds it still itself for the moment of the cut',
      { cause: thrown },
    );
  }

  /** The pool was not in a state to be cut. */
  async #unfit(thrown: SystemError): Promise<CsiError> {
    const { pool } = this.deps;
    const status = await pool.status();
    const cause = { cause: thrown };
    if (status.mode === 'out_of_data_space') {
      return CsiError.resourceExhausted(
        `pool '${pool.pool}' has no data space left, and without some a file system may not come to rest ` +
          'to be cut. Add space, or delete volumes and snapshots',
        cause,
      );
    }
    const found = trouble(status);
    if (found !== null) return CsiError.failedPrecondition(`pool '${pool.pool}' ${found}`, cause);
    return CsiError.aborted(
      `pool '${pool.pool}' was not writable for a moment (${thrown.message}), and nothing was cut: try again`,
      cause,
    );
  }

  /** A source that the pool does not hold: the kernel does not tell which. */
  async #lostSource(members: readonly NewSnapshotFile[]): Promise<DeviceRecord | null> {
    const sources = members.map(({ source }) => source);
    const found = await this.deps.look.devices(sources.map(({ deviceId }) => deviceId));
    return sources.find(({ deviceId }) => !found.has(deviceId)) ?? null;
  }
}
