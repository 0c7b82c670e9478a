/**
 * The bytes of a snapshot, read once and kept in chunks: zero chunks as null, and chunks that an
 * earlier image has too as that image's, so that many snapshots of one volume cost what differs.
 */
import assert from 'node:assert/strict';
import { closeSync, openSync, readSync } from 'node:fs';

export const CHUNK_BYTES = 65536;
const ZEROS = Buffer.alloc(CHUNK_BYTES);

export class SnapshotImage {
  private constructor(
    readonly sizeBytes: number,
    /** null: zeros. The last one is padded with zeros. */
    readonly chunks: readonly (Buffer | null)[],
  ) {}

  /** Reads a file or block device of that size. */
  static read(
    path: string,
    sizeBytes: number,
    earlier: SnapshotImage | null = null,
  ): SnapshotImage {
    const fd = openSync(path, 'r');
    try {
      return SnapshotImage.#collect(sizeBytes, earlier, (buffer, offset) => {
        const read = readSync(fd, buffer, 0, buffer.length, offset);
        assert.equal(read, buffer.length, `${path} ends at ${offset + read}`);
      });
    } finally {
      closeSync(fd);
    }
  }

  static of(bytes: Buffer, earlier: SnapshotImage | null = null): SnapshotImage {
    return SnapshotImage.#collect(bytes.length, earlier, (buffer, offset) => {
      bytes.copy(buffer, 0, offset);
    });
  }

  static zeros(sizeBytes: number): SnapshotImage {
    return new SnapshotImage(sizeBytes, new Array(Math.ceil(sizeBytes / CHUNK_BYTES)).fill(null));
  }

  static #collect(
    sizeBytes: number,
    earlier: SnapshotImage | null,
    fill: (buffer: Buffer, offset: number) => void,
  ): SnapshotImage {
    const chunks: (Buffer | null)[] = [];
    let buffer = Buffer.alloc(CHUNK_BYTES);
    for (let offset = 0; offset < sizeBytes; offset += CHUNK_BYTES) {
      const wanted = Math.min(CHUNK_BYTES, sizeBytes - offset);
      buffer.fill(0, wanted);
      fill(buffer.subarray(0, wanted), offset);
      const known = earlier?.chunks[chunks.length] ?? null;
      if (buffer.equals(ZEROS)) chunks.push(null);
      else if (known?.equals(buffer)) chunks.push(known);
      else {
        chunks.push(buffer);
        buffer = Buffer.alloc(CHUNK_BYTES);
      }
    }
    return new SnapshotImage(sizeBytes, chunks);
  }

  /** The chunk with zeros for null, and zeros beyond the end. */
  chunk(index: number): Buffer {
    return this.chunks[index] ?? ZEROS;
  }

  /** Whether both have the same bytes here; cheap for chunks they share. */
  sameChunk(other: SnapshotImage, index: number): boolean {
    const mine = this.chunks[index] ?? null;
    const others = other.chunks[index] ?? null;
    if (mine === others) return true;
    return this.chunk(index).equals(other.chunk(index));
  }
}
