/**
 * Judges a list of ranges by bytes: whether it covers every byte that differs, and how much it covers that
 * does not. The model is deliberately naive: sector by sector, no extents, no addresses.
 */
import assert from 'node:assert/strict';
import type { MetadataAnswer, Range } from './csi-client.js';
import { CHUNK_BYTES, type SnapshotImage } from './snapshot-image.js';

export const SECTOR_BYTES = 512;

/** The form CSI asks for, and merged ranges on top: no two touch. */
export function assertWellFormed(answer: MetadataAnswer, sizeBytes: number): void {
  assert.equal(answer.type, 'VARIABLE_LENGTH');
  assert.equal(answer.capacity, BigInt(sizeBytes), 'the capacity is the size of the target');
  let end = -1n;
  for (const { offset, size } of answer.ranges) {
    assert.ok(size > 0n, `an empty range at ${offset}`);
    assert.ok(offset > end, `the range at ${offset} touches the one that ends at ${end}`);
    end = offset + size;
  }
  assert.ok(end <= BigInt(sizeBytes), `a range ends at ${end}, behind the volume`);
}

/** What many comparisons found, in sectors and bytes. */
export class Tally {
  lists = 0;
  sectors = 0;
  differing = 0;
  reported = 0;
  missedBytes = 0;

  add(other: Tally): void {
    this.lists += other.lists;
    this.sectors += other.sectors;
    this.differing += other.differing;
    this.reported += other.reported;
    this.missedBytes += other.missedBytes;
  }

  /** Reported sectors for each that differs. */
  toString(): string {
    const over = this.differing === 0 ? '-' : (this.reported / this.differing).toFixed(3);
    return (
      `${this.lists} lists, ${this.sectors} sectors compared, ${this.differing} differ, ` +
      `${this.reported} reported (${over} for one), ${this.missedBytes} bytes missed`
    );
  }
}

/** Compares a list with the bytes. For an allocated list the base is all zeros. */
export function judge(base: SnapshotImage, target: SnapshotImage, ranges: readonly Range[]): Tally {
  const tally = new Tally();
  const cover = new Cover(ranges);
  tally.lists = 1;
  tally.sectors = Math.ceil(target.sizeBytes / SECTOR_BYTES);
  const bytes = ranges.reduce((sum, range) => sum + range.size, 0n);
  tally.reported = Math.ceil(Number(bytes) / SECTOR_BYTES);
  for (let index = 0; index < target.chunks.length; index += 1) {
    if (!base.sameChunk(target, index)) judgeChunk(tally, cover, { base, target, index });
  }
  return tally;
}

function judgeChunk(
  tally: Tally,
  cover: Cover,
  at: { base: SnapshotImage; target: SnapshotImage; index: number },
): void {
  const before = at.base.chunk(at.index);
  const after = at.target.chunk(at.index);
  const start = at.index * CHUNK_BYTES;
  for (let offset = 0; offset < CHUNK_BYTES; offset += SECTOR_BYTES) {
    const end = offset + SECTOR_BYTES;
    if (before.compare(after, offset, end, offset, end) === 0) continue;
    tally.differing += 1;
    if (cover.holds(start + offset, start + end)) continue;
    for (let byte = offset; byte < end; byte += 1) {
      if (before[byte] === after[byte]) continue;
      if (!cover.holds(start + byte, start + byte + 1)) tally.missedBytes += 1;
    }
  }
}

/** Looks offsets up in ranges; fast in ascending order. */
class Cover {
  readonly #ranges: readonly { start: number; end: number }[];
  #at = 0;

  constructor(ranges: readonly Range[]) {
    this.#ranges = ranges.map(({ offset, size }) => ({
      start: Number(offset),
      end: Number(offset + size),
    }));
  }

  holds(start: number, end: number): boolean {
    while (this.#at > 0 && (this.#ranges[this.#at - 1]?.end ?? 0) > start) this.#at -= 1;
    while ((this.#ranges[this.#at]?.end ?? Number.POSITIVE_INFINITY) <= start) this.#at += 1;
    const range = this.#ranges[this.#at];
    return range !== undefined && range.start <= start && end <= range.end;
  }
}

/** Well-formed, and not one byte missed. Returns the figures. */
export function assertSound(
  base: SnapshotImage,
  target: SnapshotImage,
  answer: MetadataAnswer,
  label: string,
): Tally {
  assertWellFormed(answer, target.sizeBytes);
  const tally = judge(base, target, answer.ranges);
  assert.equal(tally.missedBytes, 0, `${label}: ${tally}`);
  return tally;
}
