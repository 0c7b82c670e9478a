/**
 * Names of the device-mapper devices of one thin pool: found by name, verified by uuid.
 *
 *   blockdelta-pool-<first 16 digits of the pool's uuid>   BLOCKDELTA-<pool's uuid>-pool
 *   blockdelta-<volume id>                                 BLOCKDELTA-<pool's uuid>-<volume id>[-ro]
 *
 * Devices of other kinds are named as volumes are, by the ids of their objects. A device with another uuid is foreign, whatever its name.
 */
export class PoolNames {
  readonly pool: string;
  readonly poolUuid: string;
  readonly #uuidPrefix: string;

  constructor(poolUuid: string) {
    const digits = poolUuid.replaceAll('-', '');
    this.#uuidPrefix = `BLOCKDELTA-${digits}-`;
    this.pool = `${DEVICE_PREFIX}pool-${digits.slice(0, 16)}`;
    this.poolUuid = `${this.#uuidPrefix}pool`;
  }

  volume(volumeId: string): string {
    return `${DEVICE_PREFIX}${volumeId}`;
  }

  /**
   * The uuid says whether the volume was attached read-only: BLKROSET can make a writable device read-only for a while, and
   * the kernel reports both kinds alike.
   */
  volumeUuid(volumeId: string, { readOnly }: { readOnly: boolean }): string {
    return `${this.#uuidPrefix}${volumeId}${readOnly ? '-ro' : ''}`;
  }

  /** Whether a device is the pool, or that of an object in it. */
  isOurs({ uuid }: { uuid: string }): boolean {
    return uuid.startsWith(this.#uuidPrefix);
  }
}

/** Common prefix of the names of all devices of the plugin. */
export const DEVICE_PREFIX = 'blockdelta-';
