/**
 * Computes the checksums of an image file: SHA-256 of each segment, so that a check finds the damaged place in a file
 * and uses every core. The digests are computed on libuv's threads.
 */
import type { FileHandle } from 'node:fs/promises';
import { withFile } from '../../base/system/checked-files.js';
import { openPlain } from '../nbd/plain-file.js';

export const SEGMENT_BYTES = 16 << 20;
/** Segments in memory at a time: two cores hash two segments while a third is read. */
const IN_FLIGHT = 3;

export interface ChecksumOptions {
  segmentBytes?: number;
  signal?: AbortSignal;
  /** Called with the number of bytes hashed so far. */
  onProgress?(bytes: bigint): void;
}

/** Returns the digests of all segments, as hexadecimal numbers, and the size of the file. */
export async function checksumSegments(
  path: string,
  { segmentBytes = SEGMENT_BYTES, signal, onProgress }: ChecksumOptions = {},
): Promise<{ bytes: bigint; sha256: string[] }> {
  return withFile(openPlain(path), async (file) => {
    const { size } = await file.stat();
    const sha256: string[] = new Array(Math.ceil(size / segmentBytes)).fill('');
    let next = 0;
    let done = 0n;
    const work = async (): Promise<void> => {
      while (next < sha256.length) {
        signal?.throwIfAborted();
        const index = next;
        next += 1;
        const segment = await readSegment(file, index * segmentBytes, Math.min(size, (index + 1) * segmentBytes));
        sha256[index] = await digest(segment);
        done += BigInt(segment.length);
        onProgress?.(done);
      }
    };
    await Promise.all(Array.from({ length: IN_FLIGHT }, work));
    return { bytes: BigInt(size), sha256 };
  });
}

/** Returns fewer bytes if the file ends before. */
export async function readSegment(file: FileHandle, offset: number, end: number): Promise<Buffer<ArrayBuffer>> {
  const segment = Buffer.allocUnsafe(end - offset);
  let filled = 0;
  while (filled < segment.length) {
    const { bytesRead } = await file.read(segment, filled, segment.length - filled, offset + filled);
    // The file became shorter. The missing bytes count as damaged.
    if (bytesRead === 0) return segment.subarray(0, filled);
    filled += bytesRead;
  }
  return segment;
}

export async function digest(bytes: Buffer<ArrayBuffer>): Promise<string> {
  return Buffer.from(await crypto.subtle.digest('SHA-256', bytes)).toString('hex');
}
