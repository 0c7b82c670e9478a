/** Compares what is found of an image with its manifest. Throws FAILED_PRECONDITION with the difference. Reads nothing. */
import { CsiError } from '../../base/errors.js';
import type { ImageCheck } from '../nbd/image.js';
import type { ImageHeader } from '../nbd/image-header.js';
import type { Backup } from './stored-backup.js';

export const imageMissing = (): CsiError => CsiError.notFound('the image is missing');

export function checkSize({ manifest }: Backup, found: bigint): void {
  const { bytes } = manifest.image;
  if (found !== bytes) throw refused(`has ${found} bytes, and the manifest says ${bytes}`);
}

export function checkDigests({ manifest }: Backup, found: readonly string[]): void {
  const { sha256, segmentBytes } = manifest.image;
  const at = found.findIndex((digest, index) => digest !== sha256[index]);
  if (at === -1 && found.length === sha256.length) return;
  throw damagedAt(Math.max(at, 0), segmentBytes);
}

export function damagedAt(segment: number, segmentBytes: number): CsiError {
  const start = segment * segmentBytes;
  return refused(`is damaged: checksum mismatch within the ${segmentBytes} bytes that begin at byte ${start}`);
}

export function checkHeader({ manifest }: Backup, header: ImageHeader): void {
  const { base, volume } = manifest;
  if (header.sizeBytes !== volume.sizeBytes) {
    throw refused(`has a device of ${header.sizeBytes} bytes, and the manifest says ${volume.sizeBytes}`);
  }
  // Only the manifest identifies the base: the header may name an image that was pruned since.
  if ((header.backing === null) !== (base === null)) {
    throw refused(`is based on ${header.backing ?? 'nothing'}, and the manifest says ${base?.snapshotId ?? 'nothing'}`);
  }
}

export function checkTables({ corruptions, errors }: ImageCheck): void {
  if (corruptions + errors === 0) return;
  throw refused(`has damaged tables: qemu-img check found ${corruptions} corruptions, ${errors} errors`);
}

const refused = (found: string): CsiError => CsiError.failedPrecondition(`the image ${found}`);
