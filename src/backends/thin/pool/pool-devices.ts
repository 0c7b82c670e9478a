/**
 * What a thin pool lies on: one block device for its metadata, one for its data. Two ways to have them
 * (given-devices.ts, embedded-devices.ts); the pool knows neither.
 */
export interface PoolDevices {
  /** Made by us, and nobody else's ever. */
  readonly areOurs: boolean;
  /** Whether both are there, without making anything. */
  exist(): Promise<boolean>;
  /** Makes what is missing, where these devices are made by us: zeros, and nothing in them. */
  make(): Promise<void>;
  /** Attaches them where that is needed. Idempotent. FAILED_PRECONDITION if one is not there. */
  open(): Promise<OpenDevices>;
  /**
   * Makes the metadata device larger, if it can be. Whether it has grown. RESOURCE_EXHAUSTED if the storage
   * below has no room for it.
   */
  growMetadata(): Promise<boolean>;
  /**
   * What the storage below can really still give a pool that uses so many bytes of the data device; null:
   * all that the devices hold is theirs.
   */
  freeBelow(usedBytes: bigint): Promise<bigint | null>;
  /** Lets go of what open() took; the pool is not active any more. */
  release(): Promise<void>;
}

export interface OpenDevices {
  metadataPath: string;
  dataPath: string;
}
