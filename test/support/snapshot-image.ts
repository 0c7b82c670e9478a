/**
 * The bytes of a snapshot, read once and kept in chunks for the oracle of the conformance suite: no chunks of zeros,
 * and chunks that an earlier image has too as that image's, so that many snapshots of one volume cost what differs.
 */
import assert from 'node:assert/strict';
import { closeSync, openSync, readSync } from 'node:fs';
import { CHUNK_BYTES, chunkOf, type Image } from '../../src/tools/conformance/oracle.js';

const ZEROS = Buffer.alloc(CHUNK_BYTES);

export class SnapshotImage implements Image {
  private constructor(
    readonly sizeBytes: number,
    /** The last one is padded with zeros. */
    readonly known: ReadonlyMap<number, Buffer>,
  ) {}

  /** Reads a file or block device of that size. */
  static read(path: string, sizeBytes: number, earlier: SnapshotImage | null = null): SnapshotImage {
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
    return new SnapshotImage(sizeBytes, new Map());
  }

  static #collect(
    sizeBytes: number,
    earlier: SnapshotImage | null,
    fill: (buffer: Buffer, offset: number) => void,
  ): SnapshotImage {
    const known = new Map<number, Buffer>();
    let buffer = Buffer.alloc(CHUNK_BYTES);
    for (let index = 0; index * CHUNK_BYTES < sizeBytes; index += 1) {
      const offset = index * CHUNK_BYTES;
      const wanted = Math.min(CHUNK_BYTES, sizeBytes - offset);
      buffer.fill(0, wanted);
      fill(buffer.subarray(0, wanted), offset);
      const before = earlier?.known.get(index);
      if (buffer.equals(ZEROS)) continue;
      if (before?.equals(buffer)) known.set(index, before);
      else {
        known.set(index, buffer);
        buffer = Buffer.alloc(CHUNK_BYTES);
      }
    }
    return new SnapshotImage(sizeBytes, known);
  }

  elsewhere(): Buffer {
    return ZEROS;
  }

  /** Fails unless both have the same bytes, as far as this one goes. */
  assertSame(other: SnapshotImage): void {
    for (let index = 0; index * CHUNK_BYTES < this.sizeBytes; index += 1) {
      const isSame = chunkOf(this, index)?.equals(chunkOf(other, index) ?? ZEROS);
      assert.ok(isSame, `chunk ${index} of 64 KiB has other bytes`);
    }
  }
}
