/**
 * Copies ranges of a device, or of another image, into a qcow2 image. nbdkit serves the source with everything else as
 * a hole, qemu-nbd serves the image, and nbdcopy copies. Data outside the ranges stays unallocated in a new image, so
 * reads there return the image below, or zeros. Knows no snapshots and no manifests.
 */
import { stat } from 'node:fs/promises';
import { CsiError } from '../../base/errors.js';
import type { RuntimeDirectory } from '../../base/system/runtime-directory.js';
import { copyRanges } from '../nbd/copy.js';
import {
  COMPRESSED_BYTES,
  type Compression,
  checkImage,
  createImage,
  resizeImage,
  wholeClusters,
} from '../nbd/image.js';
import type { Content } from '../nbd/image-chain.js';
import { readImageHeader } from '../nbd/image-header.js';
import { type NbdServer, serveImage, serveRanges } from '../nbd/servers.js';
import { makeSocketDirectory } from '../nbd/socket-directory.js';
import type { RangesFile } from './ranges-file.js';

interface NewImageCopy {
  from: Content;
  ranges: RangesFile;
  /** The image that is made. */
  path: string;
  sizeBytes: bigint;
  /** The name of the base for the header; null for a full image. */
  backing: string | null;
  /**
   * The ranges are multiples of wholeClusters, so that QEMU completes no cluster from the image below, which is never opened.
   */
  compression: Compression | null;
  /** Zeros stay unallocated: for a full image, where they read as zeros. */
  skipsZeros?: boolean;
  /** Holds the sockets of the servers. */
  runtime: RuntimeDirectory;
  signal: AbortSignal;
  /** Called with the number of bytes that the image occupies on disk so far. */
  onProgress?(bytes: bigint): void;
}

const PROGRESS_INTERVAL_MS = 250;

/** Makes the image, whose path must not exist yet. Once this resolves, the image is on disk and has passed assertSound. */
export async function copyIntoImage(copy: NewImageCopy): Promise<void> {
  await createImage(copy);
  await copyData(copy);
  await assertSound(copy.path, copy.signal);
}

/** Throws INTERNAL if qemu-img finds anything wrong with a new image. */
async function assertSound(path: string, signal: AbortSignal): Promise<void> {
  const { corruptions, errors } = await checkImage(path, signal);
  if (corruptions === 0 && errors === 0) return;
  throw CsiError.internal(
    `the new image ${path} is not sound: qemu-img check found ${corruptions} corruptions and could not ` +
      `examine ${errors} places; check the memory and the disk of this machine, and run the command again`,
  );
}

/** Copies data into an existing image. */
async function copyData(copy: NewImageCopy): Promise<void> {
  const { path, compression, signal } = copy;
  const { sizeBytes } = await readImageHeader(path);
  const padded = compression === null ? sizeBytes : wholeClusters(compression, sizeBytes);
  if (padded === sizeBytes) return copyRangesOf(copy);
  // The last cluster is compressed whole, too.
  await resizeImage(path, padded, signal);
  await copyRangesOf(copy);
  await resizeImage(path, sizeBytes, signal);
}

async function copyRangesOf(copy: NewImageCopy): Promise<void> {
  const { from, ranges, path, compression, skipsZeros = false, runtime, signal, onProgress } = copy;
  // If there is nothing to copy, no servers are needed.
  if (ranges.cost.mergedRanges === 0) return;
  const sockets = makeSocketDirectory(runtime);
  const timer = setInterval(() => {
    stat(path, { bigint: true }).then(
      ({ blocks }) => onProgress?.(blocks * 512n),
      () => undefined,
    );
  }, PROGRESS_INTERVAL_MS);
  // A server that ends early must not leave the others behind.
  const servers = new AbortController();
  const place = { directory: sockets.path, signal: AbortSignal.any([signal, servers.signal]) };
  const running: NbdServer[] = [];
  const serve = async (starting: Promise<NbdServer>): Promise<NbdServer> => {
    const server = await starting;
    running.push(server);
    return server;
  };
  try {
    const device = 'device' in from ? from : await serve(serveImage({ ...from, readOnly: true, ...place }));
    const { requestSize } = ranges.plan;
    const compresses = compression !== null;
    const rounding = compresses ? { roundsTo: COMPRESSED_BYTES } : {};
    const source = await serve(serveRanges({ from: device, ranges: ranges.path, ...rounding, ...place }));
    // Compressed clusters begin anywhere: past the page cache, each would have its neighbours read and written again.
    const cache = compresses ? 'writeback' : ranges.plan.cache;
    const to = await serve(serveImage({ chain: [path], cache, compresses, ...place }));
    const zeroBytes = skipsZeros ? Number(wholeClusters(compression, 1n)) : 0;
    await copyRanges({ from: source.uri, to: to.uri, requestSize, zeroBytes, signal });
    // The image's server closes first, because it writes the last tables of the image when it ends.
    for (const server of running.reverse()) await server.close();
  } finally {
    clearInterval(timer);
    servers.abort();
    sockets.discard();
  }
}
