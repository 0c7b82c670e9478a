/**
 * Copies ranges of a device, or of another image, into a qcow2 image. Data outside the ranges stays unallocated in a new image,
 * so reads there return the image below, or zeros. Knows no snapshots and no manifests.
 */
import { rm } from 'node:fs/promises';
import { CsiError } from '../../base/errors.js';
import { createNew, withFile } from '../../base/system/checked-files.js';
import type { Entry } from '../client/list.js';
import {
  BLOCK_BYTES,
  type Compression,
  checkImage,
  convertRanges,
  createImage,
  mapImage,
  nameBacking,
} from '../nbd/image.js';
import type { Content } from '../nbd/image-chain.js';
import { readImageHeader } from '../nbd/image-header.js';
import { UNIT_MAX_BYTES, writeMap } from '../nbd/ranges-map.js';
import { type RangesFile, readRanges } from './ranges-file.js';

interface RangesCopy {
  from: Content;
  /** Multiples of BLOCK_BYTES, unless the device ends before. */
  ranges: RangesFile;
  /** The image that is written. It names no base. */
  path: string;
  compression: Compression | null;
  signal: AbortSignal;
  /** Called with the number of bytes that are copied so far. */
  onProgress?(bytes: bigint): void;
}

interface NewImageCopy extends RangesCopy {
  sizeBytes: bigint;
  /** The name of the base for the header; null for a full image. */
  backing: string | null;
}

/**
 * Makes the image, whose path must not exist yet. Once this resolves, the image has passed assertSound and holds all ranges.
 * It is not flushed.
 */
export async function copyIntoImage(copy: NewImageCopy): Promise<void> {
  const { path, backing, signal } = copy;
  await createImage({ ...copy, backing: null });
  const copied = await copyData(copy);
  if (backing !== null) await nameBacking(path, backing, signal);
  await assertSound(path, signal);
  let held = 0n;
  for await (const ranges of mapImage([path], signal)) {
    for (const { size, holder } of ranges) if (holder === 0) held += size;
  }
  if (held !== copied) throw notSound(path, `it holds ${held} bytes of ${copied} that were to be copied`);
}

/** Throws INTERNAL if qemu-img finds anything wrong with a new image. */
async function assertSound(path: string, signal: AbortSignal): Promise<void> {
  const { corruptions, errors } = await checkImage(path, signal);
  if (corruptions === 0 && errors === 0) return;
  throw notSound(path, `qemu-img check found ${corruptions} corruptions and could not examine ${errors} places`);
}

const notSound = (path: string, found: string): CsiError =>
  CsiError.internal(
    `the new image ${path} is not sound: ${found}; check the memory and the disk of this machine, and run the command again`,
  );

/** Copies data into an existing image, rounded outwards to its blocks, and returns how many bytes. Nothing is flushed. */
async function copyData(copy: RangesCopy): Promise<bigint> {
  const { from, ranges, path, compression, signal, onProgress } = copy;
  const { sizeBytes, blockBytes } = await readImageHeader(path);
  if (ranges.cost.mergedRanges === 0) return 0n;
  // The file has no name while it is used. It has the ending of unfinished files, which are removed after a kill.
  const mapPath = `${ranges.path}.partial`;
  return withFile(createNew(mapPath), async (map) => {
    await rm(mapPath);
    const wanted = compression === null ? larger(blockBytes, BigInt(ranges.plan.requestSize)) : blockBytes;
    const unitBytes = smaller(larger(wanted, BLOCK_BYTES), UNIT_MAX_BYTES);
    const list =
      compression === null ? readRanges(ranges.path) : withEnd(readRanges(ranges.path), sizeBytes, unitBytes);
    const bytes = await writeMap(map, list, { sizeBytes, unitBytes });
    const isDirect = ranges.plan.cache === 'none' && compression === null;
    await convertRanges({
      ...{ from, map, sizeBytes, path, isDirect, signal },
      compresses: compression !== null,
      onProgress: (share) => onProgress?.((bytes * BigInt(Math.round(share * 10_000))) / 10_000n),
    });
    return bytes;
  });
}

/** QEMU compresses what the device has behind its last whole cluster in any case, and would read zeros if it were not listed. */
async function* withEnd(
  list: AsyncIterable<Entry[]>,
  sizeBytes: bigint,
  clusterBytes: bigint,
): AsyncGenerator<Entry[]> {
  yield* list;
  const size = sizeBytes % clusterBytes;
  yield size === 0n ? [] : [{ offset: sizeBytes - size, size }];
}

const smaller = (a: bigint, b: bigint): bigint => (a < b ? a : b);
const larger = (a: bigint, b: bigint): bigint => (a > b ? a : b);
