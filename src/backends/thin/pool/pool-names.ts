/**
 * How the devices of one thin pool are called in the kernel: found by name, and known by uuid.
 *
 *   blockdelta-pool-<first 16 digits of the pool's uuid>   BLOCKDELTA-<pool's uuid>-pool
 *   blockdelta-<volume id>                                 BLOCKDELTA-<pool's uuid>-<volume id>[-ro]
 *
 * A device that has another uuid is somebody else's, whatever it is called.
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
   * Tells how the volume was attached, too: a device that takes no writes may have been made so later,
   * for a while (BLKROSET), and the kernel does not tell the two apart.
   */
  volumeUuid(volumeId: string, { readOnly }: { readOnly: boolean }): string {
    return `${this.#uuidPrefix}${volumeId}${readOnly ? '-ro' : ''}`;
  }

  /** Whether a device is the pool or one of its volumes. */
  isOurs({ uuid }: { uuid: string }): boolean {
    return uuid.startsWith(this.#uuidPrefix);
  }
}

/** What the names of all devices of the plugin begin with. */
export const DEVICE_PREFIX = 'blockdelta-';
