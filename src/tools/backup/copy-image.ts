/**
 * Copies ranges of a device into a new qcow2 image: nbdkit serves the device with everything else as a
 * hole, qemu-nbd serves the image, nbdcopy copies. What the ranges leave out stays unallocated, so that it
 * reads as the image below, or as zeros. Knows no snapshots and no manifests.
 */
import { stat } from 'node:fs/promises';
import { CsiError } from '../../base/errors.js';
import type { RuntimeDirectory } from '../../base/runtime-directory.js';
import { copyRanges } from '../nbd/copy.js';
import { checkImage, createImage } from '../nbd/image.js';
import { createPlain } from '../nbd/plain-file.js';
import { serveImage, serveRanges } from '../nbd/servers.js';
import { makeSocketDirectory } from '../nbd/socket-directory.js';
import type { RangesFile } from './ranges-file.js';

export interface ImageCopy {
  /** The device that is read. */
  device: string;
  ranges: RangesFile;
  /** The image that is made; there must be nothing of that name. */
  path: string;
  sizeBytes: bigint;
  /** Name of the image it is based on, in the same directory; null for a full image. */
  backing: string | null;
  /** For sockets. */
  runtime: RuntimeDirectory;
  signal: AbortSignal;
  /** Bytes of the image so far. */
  onProgress?(bytes: bigint): void;
}

const PROGRESS_INTERVAL_MS = 250;

/** When it resolves, the image is on disk and qemu-img has found nothing wrong with it. */
export async function copyIntoImage(copy: ImageCopy): Promise<void> {
  const { path, sizeBytes, backing, ranges, signal } = copy;
  // For this user alone: qemu-img would let others read it.
  await (await createPlain(path)).close();
  await createImage({ path, sizeBytes, backing, signal });
  // Nothing to copy needs no servers.
  if (ranges.cost.mergedRanges > 0) await copyData(copy);
  const { corruptions, errors } = await checkImage(path, signal);
  if (corruptions === 0 && errors === 0) return;
  throw CsiError.internal(
    `the new image ${path} is not sound: qemu-img check found ${corruptions} corruptions and could not ` +
      `examine ${errors} places; check the memory and the disk of this machine, and run the backup again`,
  );
}

async function copyData(copy: ImageCopy): Promise<void> {
  const { device, ranges, path, runtime, signal, onProgress } = copy;
  const sockets = makeSocketDirectory(runtime);
  const timer = setInterval(() => {
    stat(path, { bigint: true }).then(
      ({ blocks }) => onProgress?.(blocks * 512n),
      () => undefined,
    );
  }, PROGRESS_INTERVAL_MS);
  // A server that ends early must not leave the other one behind.
  const servers = new AbortController();
  const both = AbortSignal.any([signal, servers.signal]);
  try {
    const directory = sockets.path;
    const from = await serveRanges({ device, ranges: ranges.path, directory, signal: both });
    const { cache, requestSize } = ranges.plan;
    const to = await serveImage({ path, directory, cache, signal: both });
    await copyRanges({ from: from.uri, to: to.uri, requestSize, signal });
    // The image first: its last tables are written when its server ends.
    await to.close();
    await from.close();
  } finally {
    clearInterval(timer);
    servers.abort();
    sockets.discard();
  }
}
