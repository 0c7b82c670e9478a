/**
 * When a pool counts as too full: each level, why it has its number, and who reads it. Knows nothing of what a reader does.
 *
 * Operators set two more: BLOCKDELTA_RESERVE_PERCENT and, for thin pools, BLOCKDELTA_THIN_LOW_WATER_PERCENT (config/config.ts).
 */

/**
 * Percent in use, of the space of a pool and of the metadata of a thin pool. Operators plan more space at `filling` and add it at
 * `high`. From `critical` on the default reserve refuses new volumes.
 *
 * Readers: the log (volumes/pool-usage.ts) and deploy/helm/blockdelta/files/alerts.yaml; doctor reports a pool at `high`.
 */
export const USED_PERCENT = { filling: 80n, high: 90n, critical: 95n } as const;

/**
 * A pool with fewer free bytes is full: a write to new blocks may fail, however small it is, and so may the flush of a file system
 * before a snapshot.
 *
 * Readers: the log, health (PoolOutOfSpace), and snapshots of reflink pools (reflink/freeze-failures.ts).
 */
export const FULL_BYTES = 4n << 20n;

/**
 * Percent free below which a pool is nearly full, whatever its reserve: a pool may have none, and its volumes need a warning too.
 *
 * Reader: health (PoolNearlyFull).
 */
export const NEARLY_FULL_FREE_PERCENT = 1n;

/**
 * Percent free below which a thin pool's metadata is short: a pool with full metadata stops, so embedded metadata grows, and the
 * operator of a metadata device is warned, long before. The kernel's own threshold is never higher.
 *
 * Readers: growth and monitor (thin/pool), and deploy/helm/blockdelta/files/alerts.yaml.
 */
export const METADATA_SHORT_FREE_PERCENT = 25n;

/**
 * A reflink pool makes change lists only while more than this percent of it is free: lists save time, and writers need the space.
 *
 * Reader: reflink/list-files.ts.
 */
export const LISTS_FREE_PERCENT = 5n;

/** What a fast disk writes in a few seconds, so that space is freed before a writer needs it. */
const MIN_LOW_WATER_BYTES = 1n << 30n;
const MAX_LOW_WATER_BYTES = 16n << 30n;

/**
 * Free bytes below which a reflink pool keeps no files of deleted snapshots: a tenth of the pool between the bounds above, which
 * would be too much of a small pool, so at most a quarter.
 *
 * Readers: reflink/list-files.ts, and the guard that frees them (reflink/low-space-guard.ts).
 */
export function lowWater(totalBytes: bigint): bigint {
  const tenth = totalBytes / 10n;
  const wanted = tenth < MIN_LOW_WATER_BYTES ? MIN_LOW_WATER_BYTES : tenth;
  const capped = wanted < MAX_LOW_WATER_BYTES ? wanted : MAX_LOW_WATER_BYTES;
  return capped < totalBytes / 4n ? capped : totalBytes / 4n;
}
