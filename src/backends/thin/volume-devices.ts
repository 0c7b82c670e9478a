/**
 * The volumes of a pool as block devices: attached, found, made larger, let go of.
 *
 * A device is found by its name and known by its uuid each time. A volume has the size that the ledger
 * says; where a kill has left its device smaller, the next attach gives it the rest.
 */
import { CsiError, errorCode } from '../../base/errors.js';
import type { SerialQueue } from '../../base/serial-queue.js';
import { type ReleaseWait, releaseDevice } from '../../host/device-release.js';
import type { DmDevice } from '../../native/dm-addon.js';
import type { NativeRunner } from '../../native/pool.js';
import type { Attachment } from '../backend.js';
import { deviceInUse } from '../loop-release.js';
import type { DeviceRecord } from './ledger/ledger.js';
import type { AsyncLedger } from './ledger/ledger-client.js';
import { lostVolume } from './lost-objects.js';
import { isWritable } from './pool/pool-health.js';
import { SECTOR_BYTES } from './pool/pool-table.js';
import type { ThinPool } from './pool/thin-pool.js';

export class VolumeDevices {
  constructor(
    private readonly native: NativeRunner,
    private readonly ledger: AsyncLedger,
    private readonly pool: ThinPool,
    /** A pool that stands still takes no new table of a volume. */
    private readonly queue: SerialQueue,
  ) {}

  /** The device a volume is attached as; null: it is not. */
  async find(volumeId: string): Promise<DmDevice | null> {
    const { names } = this.pool;
    const name = names.volume(volumeId);
    const { device } = await this.native.run('dmFind', { name });
    // A process that was killed while it made the device has left it empty.
    if (device === null || device.targets.length === 0) return null;
    const ways = [false, true].map((readOnly) => names.volumeUuid(volumeId, { readOnly }));
    if (ways.includes(device.uuid)) return device;
    throw CsiError.failedPrecondition(
      `the device-mapper device ${name} is not volume ${volumeId} of pool '${this.pool.pool}': its uuid ` +
        `is '${device.uuid}'; remove it`,
    );
  }

  async findAttachment(volumeId: string): Promise<Attachment | null> {
    const device = await this.find(volumeId);
    return device === null ? null : attachment(device);
  }

  async attach(record: DeviceRecord, readOnly: boolean): Promise<Attachment> {
    const { objectId: volumeId } = record;
    const found = await this.find(volumeId);
    if (found !== null) return this.#again(record, found, readOnly);
    // First: whatever is written from now on may be lost by an unclean stop.
    if (!readOnly) await this.ledger.setOpen(volumeId, true);
    const name = this.pool.names.volume(volumeId);
    await this.native.run('dmRemove', { name, deferred: false });
    const uuid = this.pool.names.volumeUuid(volumeId, { readOnly });
    const request = { name, uuid, readOnly, ...(await this.#table(record)) };
    try {
      const { device } = await this.queue.run(() => this.native.run('dmCreate', request));
      return attachment(device);
    } catch (thrown) {
      throw errorCode(thrown) === 'ENODATA' ? lostVolume(volumeId, this.pool.pool, thrown) : thrown;
    }
  }

  /** Gives an attached device the volume's size. What is known of it then; null: not attached. */
  async grow(record: DeviceRecord): Promise<DmDevice | null> {
    const found = await this.find(record.objectId);
    if (found === null || found.sizeBytes >= record.sizeBytes) {
      if (found?.suspended === true) await this.resume(record.objectId);
      return found;
    }
    // I/O in flight is waited for: the kernel's way that is best tried for thin devices.
    const readOnly = this.#isReadOnly(record.objectId, found);
    const manner = { readOnly, noFlush: false, lockFileSystem: false };
    const request = { name: found.name, ...manner, ...(await this.#table(record)) };
    const { device } = await this.queue.run(async () => {
      await this.#assertComesToRest(record.objectId);
      return this.native.run('dmReload', request);
    });
    return device;
  }

  /** As the contract of a backend says. */
  async detach(volumeId: string, wait?: ReleaseWait): Promise<void> {
    await this.#release(volumeId, wait);
    const record = await this.ledger.device(volumeId);
    if (record === null || !record.open) return;
    // What was written is safe from here on; a pool that cannot say so leaves the volume as it is.
    // In the queue: of a pool that stands still the kernel answers without the commit.
    if (isWritable(await this.queue.run(() => this.pool.status({ commit: true })))) {
      await this.ledger.setOpen(volumeId, false);
    }
  }

  /** Lets a device go on that a cut left suspended when it was killed. */
  async resume(volumeId: string): Promise<void> {
    const device = await this.find(volumeId);
    if (device?.suspended === true) await this.native.run('dmResume', { name: device.name });
  }

  /**
   * FAILED_PRECONDITION if writers may wait for space: then the device would wait with them, and so would
   * all that could bring the space.
   */
  async #assertComesToRest(volumeId: string): Promise<void> {
    const { mode, whenFull } = await this.pool.status();
    if (mode !== 'out_of_data_space' || whenFull === 'error_if_no_space') return;
    throw CsiError.failedPrecondition(
      `the device of volume ${volumeId} cannot be given its new size while pool '${this.pool.pool}' has ` +
        'no data space and writers wait for it: add space, or delete volumes and snapshots, and try again',
    );
  }

  async #release(volumeId: string, wait?: ReleaseWait): Promise<void> {
    const name = this.pool.names.volume(volumeId);
    await this.find(volumeId);
    try {
      await releaseDevice(
        () => this.native.run('dmRemove', { name, deferred: false }),
        async () => (await this.find(volumeId))?.path ?? null,
        wait,
      );
    } catch (thrown) {
      throw deviceInUse(volumeId, thrown) ?? thrown;
    }
  }

  async #again(record: DeviceRecord, found: DmDevice, readOnly: boolean): Promise<Attachment> {
    if (this.#isReadOnly(record.objectId, found) !== readOnly) {
      throw CsiError.failedPrecondition(
        `volume ${record.objectId} is attached with another read-only state; unstage it first`,
      );
    }
    if (found.suspended) await this.native.run('dmResume', { name: found.name });
    return attachment((await this.grow(record)) ?? found);
  }

  /** Whether it was attached so; what was made of the device since does not count. */
  #isReadOnly(volumeId: string, { uuid }: DmDevice): boolean {
    return uuid === this.pool.names.volumeUuid(volumeId, { readOnly: true });
  }

  async #table(
    record: DeviceRecord,
  ): Promise<{ sizeSectors: bigint; type: string; table: string }> {
    return {
      sizeSectors: record.sizeBytes / SECTOR_BYTES,
      type: 'thin',
      table: `${await this.pool.number()} ${record.deviceId}`,
    };
  }
}

function attachment(device: DmDevice): Attachment {
  return { devicePath: device.path, readOnly: device.readOnly, sizeBytes: device.sizeBytes };
}
