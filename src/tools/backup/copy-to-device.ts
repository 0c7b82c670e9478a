/**
 * Writes ranges of a backup to a block device, and compares them. nbdkit serves the backup with everything else as a hole, qemu-nbd the
 * device, nbdcopy copies, and qemu-img compares. Knows no volumes and no drivers.
 */
import { CsiError } from '../../base/errors.js';
import type { RuntimeDirectory } from '../../base/system/runtime-directory.js';
import { compareRanges, copyRanges } from '../nbd/copy.js';
import type { ImageChain } from '../nbd/image-chain.js';
import { type NbdServer, serveDevice, serveImage, serveRanges } from '../nbd/servers.js';
import { makeSocketDirectory } from '../nbd/socket-directory.js';
import type { RangesFile } from './ranges-file.js';

export interface DeviceCopy {
  images: ImageChain;
  ranges: RangesFile;
  device: string;
  /** Of the device. What follows the end of the backup becomes zeros. */
  sizeBytes: bigint;
  /** Holds the sockets of the servers. */
  runtime: RuntimeDirectory;
  signal: AbortSignal;
  /** Called before the first byte is written. */
  onWriting(): void;
  onComparing(): void;
}

/** Once this resolves, the ranges are on disk, and were read back. Throws INTERNAL if the device holds something else. */
export async function writeToDevice(copy: DeviceCopy): Promise<void> {
  const { images, ranges, device, sizeBytes, runtime, signal, onWriting, onComparing } = copy;
  if (ranges.cost.mergedRanges === 0) return;
  const sockets = makeSocketDirectory(runtime);
  // A server that ends early must not leave the others behind.
  const servers = new AbortController();
  const place = { directory: sockets.path, signal: AbortSignal.any([signal, servers.signal]) };
  const rangesOf = ({ socketPath }: NbdServer) =>
    serveRanges({ from: { socketPath }, ranges: ranges.path, extendsTo: sizeBytes, ...place });
  try {
    const backup = await rangesOf(await serveImage({ chain: images, readOnly: true, ...place }));
    const written = await serveDevice({ device, ...place });
    onWriting();
    await copyRanges({ from: backup.uri, to: written.uri, requestSize: ranges.plan.requestSize, signal });
    await written.close();
    onComparing();
    const found = await rangesOf(await serveDevice({ device, readOnly: true, ...place }));
    const { isSame, detail } = await compareRanges(backup.uri, found.uri, signal);
    if (isSame) return;
    throw CsiError.internal(
      `what ${device} holds after it was written is not what the backup has (${detail}): check the memory and the disks of this ` +
        'machine, and run the command again',
    );
  } finally {
    servers.abort();
    sockets.discard();
  }
}
