/**
 * Computes the checksums of an image file: SHA-256 of each segment, so that a check finds the damaged place in a file.
 * The file is read past the page cache where its file system can: filling the cache takes longer than the digests.
 */
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { withFile } from '../../base/system/checked-files.js';
import { openPlain, opensDirectly } from '../nbd/plain-file.js';

export const SEGMENT_BYTES = 16 << 20;
const CHUNK_BYTES = 1 << 20;
/** Chunks that are read while one is hashed. */
const AHEAD = 4;
const SECTOR_BYTES = 512;
/** Of WebAssembly. */
const PAGE_BYTES = 65_536;

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
  const flags = constants.O_RDONLY | ((await opensDirectly(path)) ? constants.O_DIRECT : 0);
  return withFile(openPlain(path, flags), async (file) => {
    const { size } = await file.stat();
    const sha256: string[] = new Array(Math.ceil(size / segmentBytes)).fill('');
    let hash = createHash('sha256');
    let done = 0;
    for await (const chunk of chunksOf(file, size)) {
      signal?.throwIfAborted();
      for (let rest = chunk; rest.length > 0; ) {
        const part = rest.subarray(0, segmentBytes - (done % segmentBytes));
        hash.update(part);
        done += part.length;
        rest = rest.subarray(part.length);
        if (done % segmentBytes !== 0 && done !== size) continue;
        sha256[Math.ceil(done / segmentBytes) - 1] = hash.digest('hex');
        hash = createHash('sha256');
      }
      onProgress?.(BigInt(done));
    }
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

/** Yields the bytes of the file. If the file became shorter, the missing bytes count as damaged. A chunk is valid until the next. */
async function* chunksOf(file: FileHandle, size: number): AsyncGenerator<Buffer> {
  // O_DIRECT needs memory that begins at a page, as WebAssembly's does. It is used again and again: new memory is slow.
  const memory = new WebAssembly.Memory({ initial: (AHEAD * CHUNK_BYTES) / PAGE_BYTES });
  const reads: Promise<Buffer>[] = [];
  for (let next = 0, at = 0; at < size; at += CHUNK_BYTES) {
    for (; next < size && next < at + AHEAD * CHUNK_BYTES; next += CHUNK_BYTES) {
      const buffer = Buffer.from(memory.buffer, next % memory.buffer.byteLength, CHUNK_BYTES);
      const read = readChunk(file, buffer, next);
      read.catch(() => undefined);
      reads.push(read);
    }
    const chunk = await reads.shift();
    const length = Math.min(CHUNK_BYTES, size - at);
    if (chunk === undefined || chunk.length < length) return;
    yield chunk.subarray(0, length);
  }
}

/** Returns fewer bytes than the buffer has only where the file ends. */
async function readChunk(file: FileHandle, buffer: Buffer, offset: number): Promise<Buffer> {
  let filled = 0;
  while (filled < buffer.length) {
    const { bytesRead } = await file.read(buffer, filled, buffer.length - filled, offset + filled);
    filled += bytesRead;
    // A read past the page cache cannot continue within a sector.
    if (bytesRead === 0 || filled % SECTOR_BYTES !== 0) break;
  }
  return buffer.subarray(0, filled);
}

export async function digest(bytes: Buffer<ArrayBuffer>): Promise<string> {
  return Buffer.from(await crypto.subtle.digest('SHA-256', bytes)).toString('hex');
}
