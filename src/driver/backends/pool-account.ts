/**
 * How much space of a pool new volumes may take, given what is free, what is reserved, and what existing
 * volumes may still claim. Arithmetic only.
 */
import type { PoolCapacity } from './backend.js';

/** How much of the free space may be committed to new volumes. */
export interface SpacePolicy {
  overcommitPercent: bigint;
  /** Free space that is not committed to volumes, percent of the pool's size. */
  reservePercent: bigint;
}

export interface PoolSpace {
  totalBytes: bigint;
  freeBytes: bigint;
  /** As in PoolCapacity. */
  lacksBacking?: boolean;
}

export interface VolumeSizes {
  minimumVolumeBytes: bigint;
  granularityBytes: bigint;
}

/** @param committedBytes what existing volumes may still claim: the parts of them that were never written */
export function poolAccount(
  { totalBytes, freeBytes, lacksBacking = false }: PoolSpace,
  committedBytes: bigint,
  sizes: VolumeSizes,
  policy: SpacePolicy,
): PoolCapacity {
  const reserveBytes = (totalBytes * policy.reservePercent) / 100n;
  const usable = freeBytes > reserveBytes ? freeBytes - reserveBytes : 0n;
  const left = (usable * policy.overcommitPercent) / 100n - committedBytes;
  const { granularityBytes } = sizes;
  return {
    totalBytes,
    freeBytes,
    reserveBytes,
    lacksBacking,
    availableBytes: !lacksBacking && left > 0n ? (left / granularityBytes) * granularityBytes : 0n,
    ...sizes,
  };
}
