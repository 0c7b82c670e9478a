/**
 * The volumes of a pool as block devices: attaches, finds, grows and detaches them. Activates devices of other kinds, too.
 *
 * A device is found by its name and verified by its uuid each time. The ledger has the size of a volume; if a kill has left
 * the device smaller, the next attach grows the device.
 */
import { CsiError, errorCode } from '../../../base/errors.js';
import { rdevOf } from '../../../base/system/mountinfo.js';
import { type ReleaseWait, releaseDevice } from '../../host/device-release.js';
import type { DmDevice } from '../../native/dm-addon.js';
import { type NativeRunner, ofVolume } from '../../native/pool.js';
import type { SerialQueue } from '../../serial-queue.js';
import type { Attachment, Attachments, AttachOptions } from '../backend.js';
import { deviceInUse } from '../loop-release.js';
import { lostVolume } from '../lost-objects.js';
import { assertWhole, volumeRecord } from './device-records.js';
import type { DeviceRecord } from './ledger/ledger.js';
import type { AsyncLedger } from './ledger/ledger-client.js';
import { isWritable } from './pool/pool-health.js';
import { SECTOR_BYTES } from './pool/pool-table.js';
import type { ThinPool } from './pool/thin-pool.js';

export class VolumeDevices implements Attachments {
  constructor(
    private readonly native: NativeRunner,
    private readonly ledger: AsyncLedger,
    private readonly pool: ThinPool,
    /** The queue of changes of the pool: a suspended pool accepts no new table for a volume. */
    private readonly queue: SerialQueue,
  ) {}

  /** The device of a volume, or of an object of another kind; null if it is not attached. */
  async device(volumeId: string): Promise<DmDevice | null> {
    const { names } = this.pool;
    const name = names.volume(volumeId);
    const { device } = await this.native.run('dmFind', { name });
    // A process that was killed while it created the device left it without a table.
    if (device === null || device.targets.length === 0) return null;
    const uuids = [false, true].map((readOnly) => names.volumeUuid(volumeId, { readOnly }));
    if (uuids.includes(device.uuid)) return device;
    throw CsiError.failedPrecondition(
      `the device-mapper device ${name} is not volume ${volumeId} of pool '${this.pool.pool}': its uuid ` +
        `is '${device.uuid}'; remove the device`,
    );
  }

  async find(volumeId: string): Promise<Attachment | null> {
    const device = await this.device(volumeId);
    return device === null ? null : attachment(device);
  }

  async attach(volumeId: string, { readOnly, atLeastBytes = 0n }: AttachOptions): Promise<Attachment> {
    const record = await volumeRecord({ ledger: this.ledger, pool: this.pool }, volumeId);
    assertWhole(record, this.pool.pool, atLeastBytes);
    const found = await this.device(volumeId);
    if (found !== null) return this.#reattach(record, found, readOnly);
    // Recorded before the device exists: an unclean stop may lose what is written from now on.
    if (!readOnly) await this.ledger.setOpen(volumeId, true);
    try {
      return attachment(await this.activate(record, readOnly));
    } catch (thrown) {
      throw errorCode(thrown) === 'ENODATA' ? lostVolume(volumeId, this.pool.pool, thrown) : thrown;
    }
  }

  /** Makes the device of an object of any kind, which has none. ENODATA if the pool has lost the object. */
  async activate(record: DeviceRecord, readOnly: boolean): Promise<DmDevice> {
    const name = this.pool.names.volume(record.objectId);
    await this.native.run('dmRemove', { name, deferred: false });
    const uuid = this.pool.names.volumeUuid(record.objectId, { readOnly });
    const request = { name, uuid, readOnly, ...(await this.#table(record)) };
    return (await this.queue.run(() => this.native.run('dmCreate', request))).device;
  }

  /** Grows an attached device to the volume's size. Returns the device afterwards; null if it is not attached. */
  async grow(record: DeviceRecord): Promise<DmDevice | null> {
    const found = await this.device(record.objectId);
    if (found === null || found.sizeBytes >= record.sizeBytes) {
      if (found?.suspended === true) await this.resume(record.objectId);
      return found;
    }
    // The suspend waits for I/O in flight: this is the common and best tested way to suspend a thin device.
    const readOnly = this.#isReadOnly(record.objectId, found);
    const flags = { readOnly, noFlush: false, lockFileSystem: false };
    const request = { name: found.name, ...flags, ...(await this.#table(record)) };
    const { device } = await this.queue.run(async () => {
      await this.#assertCanSuspend(record.objectId);
      return this.native.run('dmReload', request, [record.objectId]);
    });
    return device;
  }

  async detach(volumeId: string, wait?: ReleaseWait): Promise<void> {
    try {
      await this.release(volumeId, wait);
    } catch (thrown) {
      throw deviceInUse(volumeId, thrown) ?? thrown;
    }
    const record = await this.ledger.device(volumeId);
    if (record === null || !record.open) return;
    // The commit makes all writes durable; without the commit the volume stays open in the ledger. It runs in the queue,
    // because the kernel answers the status of a suspended pool without a commit.
    if (isWritable(await this.queue.run(() => this.pool.status({ commit: true })))) {
      await this.ledger.setOpen(volumeId, false);
    }
  }

  /** Removes the device of an object of any kind, if it has one. Fails as `releaseDevice` does. */
  async release(objectId: string, wait?: ReleaseWait): Promise<void> {
    const name = this.pool.names.volume(objectId);
    await this.device(objectId);
    const native = ofVolume(this.native, objectId);
    const release = (): Promise<unknown> => native.run('dmRemove', { name, deferred: false });
    const findPath = async (): Promise<string | null> => (await this.device(objectId))?.path ?? null;
    await releaseDevice(native, { release, findPath }, wait);
  }

  /** Resumes a device that a kill of the plugin and its guardian during a snapshot left suspended. */
  async resume(volumeId: string): Promise<void> {
    const device = await this.device(volumeId);
    if (device?.suspended !== true) return;
    await this.native.run('dmResume', { name: device.name }, [volumeId]);
  }

  /**
   * FAILED_PRECONDITION if writers may be waiting for space: suspending the device would wait for them, and
   * block every change of the pool that could provide the space.
   */
  async #assertCanSuspend(volumeId: string): Promise<void> {
    const { mode, whenFull } = await this.pool.status();
    if (mode !== 'out_of_data_space' || whenFull === 'error_if_no_space') return;
    throw CsiError.failedPrecondition(
      `the device of volume ${volumeId} cannot be grown while pool '${this.pool.pool}' has no data space and ` +
        'writers are waiting for it; add space, or delete volumes and snapshots, and try again',
    );
  }

  async #reattach(record: DeviceRecord, found: DmDevice, readOnly: boolean): Promise<Attachment> {
    if (this.#isReadOnly(record.objectId, found) !== readOnly) {
      throw CsiError.failedPrecondition(
        `volume ${record.objectId} is attached ${readOnly ? 'writable' : 'read-only'}; unstage it first`,
      );
    }
    if (found.suspended) await this.resume(record.objectId);
    return attachment((await this.grow(record)) ?? found);
  }

  /** Whether the device was attached read-only, whatever BLKROSET has changed since. */
  #isReadOnly(volumeId: string, { uuid }: DmDevice): boolean {
    return uuid === this.pool.names.volumeUuid(volumeId, { readOnly: true });
  }

  async #table(record: DeviceRecord): Promise<{ sizeSectors: bigint; type: string; table: string }> {
    return {
      sizeSectors: record.sizeBytes / SECTOR_BYTES,
      type: 'thin',
      table: `${await this.pool.number()} ${record.deviceId}`,
    };
  }
}

function attachment({ path, major, minor, readOnly, sizeBytes }: DmDevice): Attachment {
  return { devicePath: path, rdev: rdevOf(major, minor), readOnly, sizeBytes };
}
