/**
 * Judges a list of ranges by bytes, as the conformance suite does: whether it covers every byte that differs, and how
 * much it covers that does not. The model is deliberately naive: sector by sector, no extents, no addresses.
 */
import assert from 'node:assert/strict';
import { judge } from '../../src/tools/conformance/oracle.js';
import { describeRanges } from '../../src/tools/conformance/ranges.js';
import type { CsiClient, MetadataAnswer } from './csi-client.js';
import { SnapshotImage } from './snapshot-image.js';

const SECTOR_BYTES = 512;

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

/** What many comparisons found, in sectors. */
export class Tally {
  lists = 0;
  sectors = 0;
  differing = 0;
  reported = 0;

  add(other: Tally): void {
    this.lists += other.lists;
    this.sectors += other.sectors;
    this.differing += other.differing;
    this.reported += other.reported;
  }

  /** Reported sectors for each that differs. */
  toString(): string {
    const over = this.differing === 0 ? '-' : (this.reported / this.differing).toFixed(3);
    return (
      `${this.lists} lists, ${this.sectors} sectors compared, ${this.differing} differ, ` +
      `${this.reported} reported (${over} for one)`
    );
  }
}

/** Well-formed, and not one byte missed. For an allocated list the base is all zeros. Returns the figures. */
export function assertSound(base: SnapshotImage, target: SnapshotImage, answer: MetadataAnswer, label: string): Tally {
  assertWellFormed(answer, target.sizeBytes);
  const { differingBytes, reportedBytes, missed } = judge({ base, target }, answer.ranges);
  assert.equal(describeRanges(missed), '', `${label} misses bytes that differ`);
  const tally = new Tally();
  tally.lists = 1;
  tally.sectors = Math.ceil(target.sizeBytes / SECTOR_BYTES);
  tally.differing = differingBytes / SECTOR_BYTES;
  tally.reported = Math.ceil(reportedBytes / SECTOR_BYTES);
  return tally;
}

/** A snapshot of a volume, and what it held from the moment at which it was taken. */
export interface TakenSnapshot {
  id: string;
  image: SnapshotImage;
  isDeleted?: boolean;
}

/**
 * Every delta from an older snapshot, also a deleted one, to a newer one that exists, against the bytes.
 *
 * @param taken of one volume, in the order in which they were taken
 */
export async function soundDeltas(client: CsiClient, taken: readonly TakenSnapshot[]): Promise<Tally> {
  const tally = new Tally();
  for (const [index, target] of taken.entries()) {
    if (target.isDeleted) continue;
    for (const base of taken.slice(0, index)) {
      const delta = await client.delta(base.id, target.id);
      tally.add(assertSound(base.image, target.image, delta, `delta from ${base.id} to ${target.id}`));
    }
  }
  return tally;
}

/** The same, and every allocated list. None of the snapshots is deleted. */
export async function soundLists(client: CsiClient, taken: readonly TakenSnapshot[]) {
  const allocated = new Tally();
  for (const { id, image } of taken) {
    const zeros = SnapshotImage.zeros(image.sizeBytes);
    allocated.add(assertSound(zeros, image, await client.allocated(id), `allocated list of ${id}`));
  }
  return { allocated, deltas: await soundDeltas(client, taken) };
}
