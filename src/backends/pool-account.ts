/**
 * What a pool may still promise to volumes: an account of what is free, what is kept, and what volumes
 * may still claim. Arithmetic alone.
 */
import type { PoolCapacity } from './backend.js';

/** How much of the free space new volumes may be promised. */
export interface SpacePolicy {
  overcommitPercent: bigint;
  /** Of the pool's size. */
  reservePercent: bigint;
}

export interface PoolSpace {
  totalBytes: bigint;
  freeBytes: bigint;
  /** As in PoolCapacity. */
  lacksPromised?: boolean;
}

/** Which sizes volumes of the pool may have. */
export interface VolumeSizes {
  minimumVolumeBytes: bigint;
  granularityBytes: bigint;
}

/** @param promisedBytes what existing volumes may still claim: the parts of them that were never written */
export function poolAccount(
  { totalBytes, freeBytes, lacksPromised = false }: PoolSpace,
  promisedBytes: bigint,
  sizes: VolumeSizes,
  policy: SpacePolicy,
): PoolCapacity {
  const reserveBytes = (totalBytes * policy.reservePercent) / 100n;
  const usable = freeBytes > reserveBytes ? freeBytes - reserveBytes : 0n;
  const left = (usable * policy.overcommitPercent) / 100n - promisedBytes;
  const { granularityBytes } = sizes;
  return {
    totalBytes,
    freeBytes,
    reserveBytes,
    lacksPromised,
    availableBytes: !lacksPromised && left > 0n ? (left / granularityBytes) * granularityBytes : 0n,
    ...sizes,
  };
}
