/**
 * The pool's device in the kernel: made, asked, told, replaced, removed. Knows neither what the devices
 * below it are nor what is in the pool.
 */
import { CsiError, errorCode } from '../../../base/errors.js';
import type { DmDevice, ThinPoolStatus } from '../../../native/dm-addon.js';
import type { NativeRunner } from '../../../native/pool.js';
import type { PoolNames } from './pool-names.js';
import type { PoolTable } from './pool-table.js';

export class ThinPool {
  constructor(
    private readonly native: NativeRunner,
    /** As it is configured. */
    readonly pool: string,
    readonly names: PoolNames,
  ) {}

  /** Null: it is not active. FAILED_PRECONDITION if its name is somebody else's. */
  async find(): Promise<DmDevice | null> {
    const { device } = await this.native.run('dmFind', { name: this.names.pool });
    if (device === null || device.uuid === this.names.poolUuid) return device;
    throw CsiError.failedPrecondition(
      `the device-mapper device ${this.names.pool} is not the one of pool '${this.pool}': its uuid is ` +
        `'${device.uuid}' and should be '${this.names.poolUuid}'; remove it`,
    );
  }

  /** FAILED_PRECONDITION if the pool is not active. `commit`: what was written so far is safe then. */
  async status({ commit } = { commit: false }): Promise<ThinPoolStatus> {
    const { status } = await this.native.run('thinPoolStatus', { name: this.names.pool, commit });
    if (status !== null) return status;
    throw CsiError.failedPrecondition(
      `pool '${this.pool}' is not active: its device ${this.names.pool} was removed; restart the plugin`,
    );
  }

  /** One after the other; the status after the last one. Rejects with SystemError as thinMessages fails. */
  async tell(messages: readonly string[]): Promise<ThinPoolStatus> {
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

  /** Gives the active pool another table: other features, or devices that have grown. */
  async replace({ sizeSectors, table }: PoolTable): Promise<void> {
    const { pool: name } = this.names;
    // Nobody does I/O on the pool's own device, and volumes are held still by the kernel meanwhile.
    const manner = { readOnly: false, noFlush: true, lockFileSystem: false };
    const request = { name, ...manner, sizeSectors, type: 'thin-pool', table };
    try {
      await this.native.run('dmReload', request);
    } catch (thrown) {
      throw this.#explain(thrown);
    }
  }

  /** Whether it is gone: not while a volume is active, or somebody holds the device. */
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

const ABSENT = 'its metadata or data device is not there';

const REASONS: Readonly<Record<string, string>> = {
  EBUSY: 'somebody else uses its metadata or data device; look at mounts, LVM and multipath',
  ENOSPC: 'its metadata device is too small for its data device; give it a larger one',
  EINVAL: 'the kernel refuses its devices or its metadata, and the kernel log says why',
  // Which of them depends on the kernel, and on whether a number or a path was looked for.
  ENXIO: ABSENT,
  ENODEV: ABSENT,
  ENOENT: ABSENT,
};
