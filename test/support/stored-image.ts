/**
 * The image of a volume in the store of a backup program, in chunks of 1 MiB as Velero reads it: with O_DIRECT, and the last chunk
 * of an irregular size is padded with zeros. An image never changes; the next one shares the chunks that are not read again.
 */
import assert from 'node:assert/strict';
import { closeSync, constants, fsyncSync, openSync, readSync, writeSync } from 'node:fs';
import type { Range } from './csi-client.js';
import { blockZeroOut } from './ioctls.js';

export const CHUNK_BYTES = 1 << 20;
/** Pages of WebAssembly, whose memory is aligned as O_DIRECT needs it. */
const CHUNK_PAGES = CHUNK_BYTES / 65_536;
const ZEROS = Buffer.alloc(CHUNK_BYTES);

export class StoredImage {
  private constructor(
    readonly sizeBytes: number,
    /** Those that are not zeros. */
    private readonly chunks: ReadonlyMap<number, Buffer>,
  ) {}

  static empty(): StoredImage {
    return new StoredImage(0, new Map());
  }

  /** The image after these chunks were read from a device of that size. */
  updated(devicePath: string, sizeBytes: number, numbers: Iterable<number>): StoredImage {
    const chunks = new Map(this.chunks);
    readChunks(devicePath, sizeBytes, numbers, (number, bytes) => {
      if (bytes.equals(ZEROS)) chunks.delete(number);
      else chunks.set(number, Buffer.from(bytes));
    });
    return new StoredImage(sizeBytes, chunks);
  }

  /** Fails unless a device of that size holds the image, and zeros behind it. */
  assertHeldBy(devicePath: string, sizeBytes = this.sizeBytes): void {
    readChunks(devicePath, sizeBytes, allChunks(sizeBytes), (number, bytes) => {
      assert.ok(bytes.equals(this.chunks.get(number) ?? ZEROS), `chunk ${number} of ${devicePath} has other bytes`);
    });
  }

  /** Writes ranges of the image to a device, durably, and zeros by BLKZEROOUT. */
  write(devicePath: string, ranges: readonly Range[]): { writtenBytes: number; zeroedBytes: number } {
    const done = { writtenBytes: 0, zeroedBytes: 0 };
    const fd = openSync(devicePath, 'r+');
    try {
      for (const { offset, length, bytes } of this.#pieces(ranges)) {
        if (bytes.equals(ZEROS.subarray(0, length))) {
          blockZeroOut(fd, offset, length);
          done.zeroedBytes += length;
        } else {
          assert.equal(writeSync(fd, bytes, 0, length, offset), length);
          done.writtenBytes += length;
        }
      }
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    return done;
  }

  /** Ranges cut at the ends of chunks. */
  *#pieces(ranges: readonly Range[]): Generator<{ offset: number; length: number; bytes: Buffer }> {
    for (const range of ranges) {
      const end = Number(range.offset + range.size);
      let next = Number(range.offset);
      while (next < end) {
        const offset = next;
        const number = Math.floor(offset / CHUNK_BYTES);
        next = Math.min(end, (number + 1) * CHUNK_BYTES);
        const start = offset - number * CHUNK_BYTES;
        const length = next - offset;
        yield { offset, length, bytes: (this.chunks.get(number) ?? ZEROS).subarray(start, start + length) };
      }
    }
  }
}

export const allChunks = (sizeBytes: number): number[] => [...Array(Math.ceil(sizeBytes / CHUNK_BYTES)).keys()];

/** The chunks that ranges touch, ascending. */
export function chunksOf(ranges: readonly Range[]): number[] {
  const found = new Set<number>();
  for (const { offset, size } of ranges) {
    const last = Math.floor(Number(offset + size - 1n) / CHUNK_BYTES);
    for (let number = Math.floor(Number(offset) / CHUNK_BYTES); number <= last; number += 1) found.add(number);
  }
  return [...found].sort((a, b) => a - b);
}

/** @param use gets a whole chunk, which holds the next one after it returns */
function readChunks(
  devicePath: string,
  sizeBytes: number,
  numbers: Iterable<number>,
  use: (number: number, bytes: Buffer) => void,
): void {
  const bytes = Buffer.from(new WebAssembly.Memory({ initial: CHUNK_PAGES, maximum: CHUNK_PAGES }).buffer);
  const fd = openSync(devicePath, constants.O_RDONLY | constants.O_DIRECT);
  try {
    for (const number of numbers) {
      const offset = number * CHUNK_BYTES;
      const length = readSync(fd, bytes, 0, CHUNK_BYTES, offset);
      assert.equal(length, Math.min(CHUNK_BYTES, sizeBytes - offset), `chunk ${number} of ${devicePath} is short`);
      use(number, bytes.fill(0, length));
    }
  } finally {
    closeSync(fd);
  }
}
