/**
 * Makes another image for a backup, with all that the backup needs of images below it that are to go. The content is copied and
 * not the file, so the new image has the form that fits its content, and no remains. No existing file changes.
 */
import { rm } from 'node:fs/promises';
import type { Entry } from '../client/list.js';
import { BLOCK_BYTES, mapImage } from '../nbd/image.js';
import type { ImageChain } from '../nbd/image-chain.js';
import { baseNameOf, chainOf, type VolumeBackups } from './chains.js';
import { checksumSegments, SEGMENT_BYTES } from './checksums.js';
import { copyIntoImage } from './copy-image.js';
import { writeRanges } from './ranges-file.js';
import type { Repository } from './repository.js';
import type { Backup } from './stored-backup.js';

export interface Rebase {
  backup: Backup;
  /** A backup below, which becomes the base; null for a full image of the snapshot. */
  onto: Backup | null;
  signal: AbortSignal;
}

/**
 * The caller holds the lock of the volume, and has verified the images of the chain above `onto`. The backup that was given
 * is superseded once this resolves.
 */
export async function rebase(
  repository: Repository,
  volume: VolumeBackups,
  { backup, onto, signal }: Rebase,
): Promise<void> {
  const chain = chainOf(backup, volume);
  const joined = chain.length - (onto === null ? 0 : chainOf(onto, volume).length);
  const { manifest } = backup;
  const { sizeBytes } = manifest.volume;
  const { compression } = manifest.image;
  const paths = await repository.beginNext(backup);
  const { imagePartial: path, rangesPartial, imageFile } = paths;
  try {
    await volume.images.open(chain, async (images) => {
      const ranges = await writeRanges(heldByFirst(joined, images, signal), {
        of: `backup ${manifest.snapshot.id}`,
        path: rangesPartial,
        grainBytes: BLOCK_BYTES,
        sizeBytes: () => sizeBytes,
      });
      await repository.assertRoom(ranges.plan.bytes);
      const backing = onto?.manifest.image.file ?? null;
      const from = { chain: images };
      await copyIntoImage({ from, sizeBytes, ranges, path, backing, compression, signal });
    });
    const { bytes, sha256 } = await checksumSegments(path, { signal });
    await repository.commit(paths, {
      ...manifest,
      base: onto && baseNameOf(onto),
      method: onto === null ? 'full' : 'delta',
      reason: onto === null ? `it is a synthetic full backup, made of ${joined} images` : null,
      image: { file: imageFile, bytes, segmentBytes: SEGMENT_BYTES, sha256, compression },
    });
  } catch (thrown) {
    for (const left of [path, rangesPartial]) await rm(left, { force: true });
    throw thrown;
  }
}

/** Yields the ranges, zeros included, that are read from the first `count` images: the top one, and those below it. */
async function* heldByFirst(count: number, chain: ImageChain, signal: AbortSignal): AsyncGenerator<Entry[]> {
  for await (const ranges of mapImage(chain, signal)) {
    yield ranges.filter(({ holder }) => holder !== null && holder < count);
  }
}
