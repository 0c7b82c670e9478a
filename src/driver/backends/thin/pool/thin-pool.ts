/**
 * The pool's device in the kernel: activates, queries, messages, reloads and removes it. Knows neither the
 * devices below it nor what is in the pool.
 */
import { CsiError, errorCode } from '../../../../base/errors.js';
import type { DmDevice, ThinPoolStatus } from '../../../native/dm-addon.js';
import type { NativeRunner } from '../../../native/pool.js';
import type { PoolNames } from './pool-names.js';
import type { PoolTable } from './pool-table.js';

export class ThinPool {
  constructor(
    private readonly native: NativeRunner,
    /** The configured name of the pool. */
    readonly pool: string,
    readonly names: PoolNames,
  ) {}

  /** Null if the pool is not active. FAILED_PRECONDITION if a foreign device has its name. */
  async find(): Promise<DmDevice | null> {
    const { device } = await this.native.run('dmFind', { name: this.names.pool });
    if (device === null || device.uuid === this.names.poolUuid) return device;
    throw CsiError.failedPrecondition(
      `the device-mapper device ${this.names.pool} is not the one of pool '${this.pool}': its uuid is ` +
        `'${device.uuid}' and should be '${this.names.poolUuid}'; remove the device`,
    );
  }

  /** FAILED_PRECONDITION if the pool is not active. With `commit`, the kernel commits the metadata first. */
  async status({ commit } = { commit: false }): Promise<ThinPoolStatus> {
    const { status } = await this.native.run('thinPoolStatus', { name: this.names.pool, commit });
    if (status !== null) return status;
    throw CsiError.failedPrecondition(
      `pool '${this.pool}' is not active: its device ${this.names.pool} was removed; restart the plugin`,
    );
  }

  /** Sends the messages in order; returns the status after the last one. Rejects with the SystemError of thinMessages. */
  async send(messages: readonly string[]): Promise<ThinPoolStatus> {
    return (await this.native.run('thinMessages', { pool: this.names.pool, messages })).status;
  }

  /** "major:minor", for the tables of volumes. */
  async number(): Promise<string> {
    const device = await this.find();
    if (device !== null) return `${device.major}:${device.minor}`;
    throw CsiError.failedPrecondition(`pool '${this.pool}' is not active; restart the plugin`);
  }

  async activate({ sizeSectors, table }: PoolTable): Promise<void> {
    const { pool: name, poolUuid: uuid } = this.names;
    const request = { name, uuid, readOnly: false, sizeSectors, type: 'thin-pool', table };
    try {
      await this.native.run('dmCreate', request);
    } catch (thrown) {
      throw this.#explain(thrown);
    }
  }

  /** Reloads the active pool with another table: other features, or devices that have grown. */
  async replace({ sizeSectors, table }: PoolTable): Promise<void> {
    const { pool: name } = this.names;
    // No I/O goes to the pool's own device, and the kernel suspends the volumes meanwhile.
    const flags = { readOnly: false, noFlush: true, lockFileSystem: false };
    const request = { name, ...flags, sizeSectors, type: 'thin-pool', table };
    try {
      await this.native.run('dmReload', request);
    } catch (thrown) {
      throw this.#explain(thrown);
    }
  }

  /** False if a volume is active, or the device is held open. */
  async remove(): Promise<boolean> {
    try {
      await this.native.run('dmRemove', { name: this.names.pool, deferred: false });
      return true;
    } catch (thrown) {
      if (errorCode(thrown) !== 'EBUSY') throw thrown;
      return false;
    }
  }

  #explain(thrown: unknown): unknown {
    const code = errorCode(thrown);
    const why = code === undefined ? undefined : REASONS[code];
    if (why === undefined) return thrown;
    return CsiError.failedPrecondition(`pool '${this.pool}' cannot be activated: ${why}`, {
      cause: thrown,
    });
  }
}

const ABSENT = 'its metadata or data device is missing; check BLOCKDELTA_POOLS and the disks';

const REASONS: Readonly<Record<string, string>> = {
  EBUSY: 'its metadata or data device is in use; check mounts, LVM and multipath',
  ENOSPC: 'its metadata device is too small for its data device; give it a larger one',
  EINVAL: 'the kernel rejects its devices or its metadata; the kernel log has the reason',
  // The code depends on the kernel version, and on whether the device is named by number or path.
  ENXIO: ABSENT,
  ENODEV: ABSENT,
  ENOENT: ABSENT,
};
