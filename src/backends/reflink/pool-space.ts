/**
 * The space of a reflink pool: what its file system has free, and how much of that is committed to
 * sparse volume files. Reads sizes, changes nothing.
 */
import type { BigIntStats } from 'node:fs';
import { readdir, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { errorCode } from '../../base/errors.js';
import type { PoolCapacity, PoolStatistics } from '../backend.js';
import { type PoolSpace, poolAccount, type SpacePolicy } from '../pool-account.js';
import { isObjectName, type PoolLayout } from './pool-layout.js';

const MINIMUM_VOLUME_BYTES = 1n << 20n;
/** Whole file system blocks, so that no tail block is shared between content and slack. */
const GRANULARITY_BYTES = 4096n;
const SIZES = { minimumVolumeBytes: MINIMUM_VOLUME_BYTES, granularityBytes: GRANULARITY_BYTES };
/** st_blocks counts in these (stat(2)). */
const STAT_BLOCK_BYTES = 512n;

export async function poolCapacity(
  layout: PoolLayout,
  space: PoolSpace,
  policy: SpacePolicy,
): Promise<PoolCapacity> {
  return poolAccount(space, await committedBytes(layout), SIZES, policy);
}

export async function poolStatistics(
  layout: PoolLayout,
  space: PoolSpace,
  policy: SpacePolicy,
): Promise<PoolStatistics> {
  const volumes = new Map<string, bigint>();
  let promisedBytes = 0n;
  // One at a time: this runs at every scrape, and a disk that dies meanwhile must not take all threads of libuv.
  for (const { name, found } of await volumeFiles(layout, 1)) {
    volumes.set(name, allocatedBytes(found));
    promisedBytes += unwrittenBytes(found);
  }
  const capacity = poolAccount(space, promisedBytes, SIZES, policy);
  return { space: { capacity, promisedBytes, volumes }, thin: null };
}

/** Size and free space of the pool's file system. `root` is a path to the pool. */
export async function poolUsage(root: string): Promise<{ totalBytes: bigint; freeBytes: bigint }> {
  const pool = await statfs(root, { bigint: true });
  return { totalBytes: pool.blocks * pool.bsize, freeBytes: pool.bavail * pool.bsize };
}

/** What volumes may still claim: the parts of them that were never written. */
export async function committedBytes(layout: PoolLayout): Promise<bigint> {
  return (await volumeBytes(layout)).unwritten;
}

/** How much of the volumes was written, and how much was never written. */
export async function volumeBytes(
  layout: PoolLayout,
): Promise<{ written: bigint; unwritten: bigint }> {
  let written = 0n;
  let unwritten = 0n;
  for (const { found } of await volumeFiles(layout)) {
    written += allocatedBytes(found);
    unwritten += unwrittenBytes(found);
  }
  return { written, unwritten };
}

async function volumeFiles(
  layout: PoolLayout,
  atOnce = STATS_AT_ONCE,
): Promise<{ name: string; found: BigIntStats }[]> {
  return statAll(layout.volumes, (await readdir(layout.volumes)).filter(isObjectName), atOnce);
}

function allocatedBytes({ blocks }: BigIntStats): bigint {
  return blocks * STAT_BLOCK_BYTES;
}

function unwrittenBytes(found: BigIntStats): bigint {
  const allocated = allocatedBytes(found);
  return allocated < found.size ? found.size - allocated : 0n;
}

/** Enough to keep the threads of libuv busy. */
const STATS_AT_ONCE = 64;

/** The files of the directory that exist, in the order of `names`. */
export async function statAll(
  directory: string,
  names: readonly string[],
  atOnce = STATS_AT_ONCE,
): Promise<{ name: string; found: BigIntStats }[]> {
  const present: { name: string; found: BigIntStats }[] = [];
  for (let begin = 0; begin < names.length; begin += atOnce) {
    const batch = names.slice(begin, begin + atOnce);
    const stats = await Promise.all(batch.map((name) => statOrNull(join(directory, name))));
    for (const [index, found] of stats.entries()) {
      if (found !== null) present.push({ name: batch[index] ?? '', found });
    }
  }
  return present;
}

/** Null if the file does not exist, as when it was removed after a readdir. */
export async function statOrNull(path: string): Promise<BigIntStats | null> {
  try {
    return await stat(path, { bigint: true });
  } catch (thrown) {
    if (errorCode(thrown) === 'ENOENT') return null;
    throw thrown;
  }
}
