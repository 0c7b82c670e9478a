/**
 * Copies of one or several volumes at one point in time; attached volumes are suspended meanwhile. The
 * caller decides whether a copy becomes a snapshot or a volume.
 */
import { CsiError, SystemError } from '../../../base/errors.js';
import { isToolAtWork } from '../../host/device-holders.js';
import type { NativeRunner } from '../../native/pool.js';
import { brokenFreeze, type FreezeRequest, type Freezing, freezeRequest, missingGuardian } from '../freezing.js';
import { lostVolume } from '../lost-objects.js';
import type { DeviceRecord, NewDevice } from './ledger/ledger.js';
import { MAX_TIME } from './metadata/metadata-reader.js';
import { whyUnwritable } from './pool/pool-health.js';
import type { PoolParts } from './pool-parts.js';

export interface CopyMember {
  source: DeviceRecord;
  copy: NewDevice;
}

export interface CopyDependencies extends Omit<PoolParts, 'ledger'> {
  native: NativeRunner;
  freezing: Freezing;
}

export class ThinCopies {
  constructor(private readonly deps: CopyDependencies) {}

  /** Returns when the copies were taken, by the wall clock, ns since the epoch. A failure leaves no copy. */
  async take(members: readonly CopyMember[], deadline = Number.POSITIVE_INFINITY): Promise<bigint> {
    const freezing = freezeRequest(this.deps.freezing, deadline);
    const sources = await Promise.all(members.map(({ source }) => this.#deviceOf(source)));
    const { native, pool, transactions } = this.deps;
    const copies = members.map(({ copy }) => copy);
    try {
      return await transactions.create(copies, async (made) => {
        await this.#assertTimeLeft(members.length);
        const requests = made.map(({ deviceId }, index) => ({
          deviceName: sources[index] ?? null,
          originId: (members[index] as CopyMember).source.deviceId,
          snapshotId: deviceId,
        }));
        const request = { pool: pool.names.pool, members: requests, ...freezing };
        const volumes = members.map(({ source }) => source.objectId);
        return (await native.run('takeThinSnapshots', request, volumes)).takenAtNs;
      });
    } catch (thrown) {
      throw await this.#explain(thrown, members, freezing);
    }
  }

  /** Makes a device with the content of one that is not active, or of zeros. ENODATA if the pool has lost the origin. */
  async fork(copy: NewDevice, origin: DeviceRecord | null): Promise<DeviceRecord> {
    const { pool, transactions } = this.deps;
    return transactions.create([copy], async (made) => {
      const [device] = made as [DeviceRecord];
      const { deviceId } = device;
      if (origin !== null) await this.#assertTimeLeft(1);
      await pool.send([origin === null ? `create_thin ${deviceId}` : `create_snap ${deviceId} ${origin.deviceId}`]);
      return device;
    });
  }

  /**
   * FAILED_PRECONDITION if the pool's time cannot advance that far. Call this in the pool's queue, so that the time does not
   * advance between the check and the messages.
   */
  async #assertTimeLeft(snapshots: number): Promise<void> {
    const { time } = await this.deps.metadata.superblock();
    if (time + snapshots <= MAX_TIME) return;
    throw CsiError.failedPrecondition(
      `pool '${this.deps.pool.pool}' has counted ${time} snapshots and clones, and the kernel's counter ends at ` +
        `${MAX_TIME}: no more can be created in it; move its volumes to a new pool`,
    );
  }

  /** The name of the device to suspend; null if the volume is not attached, so that nobody is writing. */
  async #deviceOf(source: DeviceRecord): Promise<string | null> {
    const device = await this.deps.devices.device(source.objectId);
    if (device === null) return null;
    if (await isToolAtWork(device.path)) {
      throw CsiError.aborted(
        `a tool of an earlier call is still working on volume ${source.objectId}, whose file system is ` +
          'incomplete until it ends; try again then',
      );
    }
    return device.name;
  }

  async #explain(thrown: unknown, members: readonly CopyMember[], freezing: FreezeRequest): Promise<unknown> {
    if (!(thrown instanceof SystemError)) return thrown;
    if (thrown.code === 'THIN_POOL_MODE') return this.#explainMode(thrown);
    const { pool } = this.deps;
    const missing = missingGuardian(thrown, freezing.guardianSocket);
    if (missing !== null) return missing;
    if (thrown.code === 'ENODATA') {
      const lost = await this.#lostSource(members);
      return lost === null ? thrown : lostVolume(lost.objectId, pool.pool, thrown);
    }
    const volumeId = members.map(({ source }) => source.objectId).find((id) => pool.names.volume(id) === thrown.path);
    if (volumeId === undefined) return thrown;
    const broken = brokenFreeze(thrown, volumeId, freezing);
    if (broken !== null || thrown.code !== 'EBUSY') return broken ?? thrown;
    return CsiError.failedPrecondition(
      `the device of volume ${volumeId} was suspended by another program; resume it first: the plugin suspends it ` +
        'itself while it takes the snapshot',
      { cause: thrown },
    );
  }

  /** The error that says why the pool was in no state to take the copies. */
  async #explainMode(thrown: SystemError): Promise<CsiError> {
    const { pool } = this.deps;
    const status = await pool.status();
    const cause = { cause: thrown };
    if (status.mode === 'out_of_data_space') {
      return CsiError.resourceExhausted(
        `pool '${pool.pool}' has no data space left, so a file system may not be able to flush and freeze for a ` +
          'snapshot; add space, or delete volumes and snapshots',
        cause,
      );
    }
    const found = whyUnwritable(status);
    if (found !== null) return CsiError.failedPrecondition(`pool '${pool.pool}' ${found}`, cause);
    return CsiError.aborted(
      `pool '${pool.pool}' was not writable for a moment (${thrown.message}), and no snapshot was taken; try again`,
      cause,
    );
  }

  /** The first source that the pool does not have: the kernel does not report which one it missed. */
  async #lostSource(members: readonly CopyMember[]): Promise<DeviceRecord | null> {
    const sources = members.map(({ source }) => source);
    const found = await this.deps.metadata.devices(sources.map(({ deviceId }) => deviceId));
    return sources.find(({ deviceId }) => !found.has(deviceId)) ?? null;
  }
}
