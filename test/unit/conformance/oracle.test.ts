import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  CHUNK_BYTES,
  expectSound,
  fullImage,
  type Image,
  judge,
  zeroImage,
} from '../../../src/tools/conformance/oracle.js';
import { Cover, coverage, difference, type Entry, tailFrom } from '../../../src/tools/conformance/ranges.js';
import { type Random, seededRandom } from '../../support/random.js';

const SPACE = 64;

function randomEntries(random: Random): Entry[] {
  return Array.from({ length: random.below(8) }, () => ({
    offset: BigInt(random.below(SPACE - 12)),
    size: BigInt(random.below(12)),
  }));
}

/** The model: one flag for each byte. */
function bytesOf(entries: readonly Entry[]): boolean[] {
  const bytes = new Array<boolean>(SPACE).fill(false);
  for (const { offset, size } of entries) {
    for (let byte = offset; byte < offset + size; byte += 1n) bytes[Number(byte)] = true;
  }
  return bytes;
}

test('sets of ranges agree with a model that has a flag for each byte', () => {
  const random = seededRandom('ranges');
  for (let round = 0; round < 3000; round += 1) {
    const [a, b] = [randomEntries(random), randomEntries(random)];
    const merged = coverage(a);
    assert.deepEqual(bytesOf(merged), bytesOf(a));
    merged.slice(1).forEach(({ offset }, index) => {
      const before = merged[index] as Entry;
      assert.ok(offset > before.offset + before.size, 'ranges ascend and do not touch');
    });
    const start = BigInt(random.below(SPACE));
    const tail = bytesOf(a).map((set, byte) => set && byte >= Number(start));
    assert.deepEqual(bytesOf(tailFrom(merged, start)), tail);
    const [inA, inB] = [bytesOf(a), bytesOf(b)];
    const rest = difference(coverage(a), coverage(b));
    assert.deepEqual(
      bytesOf(rest),
      inA.map((set, byte) => set && !inB[byte]),
    );
    assert.ok(rest.every(({ size }) => size > 0n));
    const cover = new Cover(a);
    for (let tries = 0; tries < 5; tries += 1) {
      const from = random.below(SPACE - 1);
      const to = from + 1 + random.below(SPACE - from - 1);
      assert.equal(cover.holds(from, to), inA.slice(from, to).every(Boolean), `${from} to ${to}`);
    }
  }
});

const SIZE = 4 * CHUNK_BYTES;

function imageOf(random: Random, base: Image | null): Image {
  const known = new Map(base?.known ?? []);
  for (let changes = 0; changes < 6; changes += 1) {
    const index = random.below(4);
    const chunk = Buffer.from(known.get(index) ?? Buffer.alloc(CHUNK_BYTES));
    const offset = random.below(CHUNK_BYTES - 300);
    random.bytes(1 + random.below(300)).copy(chunk, offset);
    known.set(index, chunk);
  }
  return fullImage(SIZE, known);
}

const whole = (image: Image): Buffer =>
  Buffer.concat([0, 1, 2, 3].map((index) => image.known.get(index) ?? Buffer.alloc(CHUNK_BYTES)));

/** The bytes that differ, as ranges, compared one by one. */
function differing(base: Image, target: Image): Entry[] {
  const [before, after] = [whole(base), whole(target)];
  const entries: Entry[] = [];
  for (let byte = 0; byte < SIZE; byte += 1) {
    if (before[byte] !== after[byte]) entries.push({ offset: BigInt(byte), size: 1n });
  }
  return coverage(entries);
}

test('a list with exactly the differing bytes is sound, and without any single one it is not', () => {
  const random = seededRandom('oracle');
  for (let round = 0; round < 15; round += 1) {
    const base = imageOf(random, null);
    const target = imageOf(random, base);
    const exact = differing(base, target);
    assert.deepEqual(judge({ base, target }, exact).missed, []);
    const { offset, size } = random.pick(exact);
    const at = offset + BigInt(random.below(Number(size)));
    const short = difference(exact, [{ offset: at, size: 1n }]);
    assert.deepEqual(judge({ base, target }, short).missed, [{ offset: at, size: 1n }]);
    assert.throws(() => expectSound('a list', { base, target }, short), /1 bytes at/);
  }
});

test('zeros alone may be missing from an allocated list, and what became zero or lies beyond a smaller base from none', () => {
  const written = Buffer.alloc(CHUNK_BYTES);
  written.fill(7, 1000, 1010);
  const image = fullImage(SIZE, new Map([[1, written]]));
  const entry = { offset: BigInt(CHUNK_BYTES + 1000), size: 10n };
  for (const [base, target, zerosMayBeMissing] of [
    [zeroImage(SIZE), image, true],
    [image, zeroImage(SIZE), false],
    [fullImage(CHUNK_BYTES, new Map()), image, false],
  ] as const) {
    assert.deepEqual(judge({ base, target, zerosMayBeMissing }, [entry]).missed, []);
    assert.deepEqual(judge({ base, target, zerosMayBeMissing }, []).missed, [entry]);
  }
  const judgement = judge({ base: zeroImage(SIZE), target: image }, [{ ...entry, size: 4096n }]);
  assert.deepEqual([judgement.differingBytes, judgement.reportedBytes], [512, 4096]);
});
