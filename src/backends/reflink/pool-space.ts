/**
 * What a reflink pool may still promise to volumes: what is free, less what sparse files may still
 * claim. Reads sizes, changes nothing.
 */
import type { BigIntStats } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { errorCode } from '../../errors.js';
import type { PoolCapacity } from '../backend.js';
import { type PoolSpace, poolAccount, type SpacePolicy } from '../pool-account.js';
import { isObjectName, type PoolLayout } from './pool-layout.js';

const MINIMUM_VOLUME_BYTES = 1n << 20n;
/** Whole file system blocks, so that no tail block is shared between content and slack. */
const GRANULARITY_BYTES = 4096n;
/** st_blocks counts in these (stat(2)). */
const STAT_BLOCK_BYTES = 512n;

export async function poolCapacity(
  layout: PoolLayout,
  space: PoolSpace,
  policy: SpacePolicy,
): Promise<PoolCapacity> {
  const sizes = { minimumVolumeBytes: MINIMUM_VOLUME_BYTES, granularityBytes: GRANULARITY_BYTES };
  return poolAccount(space, await promisedBytes(layout), sizes, policy);
}

/** What existing volumes may still claim: the parts of them that were never written. */
export async function promisedBytes(layout: PoolLayout): Promise<bigint> {
  let promised = 0n;
  for (const name of (await readdir(layout.volumes)).filter(isObjectName)) {
    const found = await statOrNull(layout.volume(name));
    if (found === null) continue;
    const allocated = found.blocks * STAT_BLOCK_BYTES;
    if (allocated < found.size) promised += found.size - allocated;
  }
  return promised;
}

/** Null if the file is gone, such as between a readdir and its stat. */
export async function statOrNull(path: string): Promise<BigIntStats | null> {
  try {
    return await stat(path, { bigint: true });
  } catch (thrown) {
    if (errorCode(thrown) === 'ENOENT') return null;
    throw thrown;
  }
}
