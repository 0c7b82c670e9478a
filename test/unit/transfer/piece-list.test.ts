/** The lists of pieces, compared with a plain count of blocks. */
import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Piece, type PieceLimits, type Range, writePiece } from '../../../src/driver/transfer/piece-list.js';
import { type Random, seededRandom } from '../../support/random.js';
import { temporaryDirectory } from '../../support/temporary.js';

const directory = temporaryDirectory();
const BLOCKS = 400;
const BLOCK = 4096n;

let made = 0;
async function listOf(changed: readonly Range[], held: readonly Range[], limits: PieceLimits) {
  made += 1;
  const path = join(directory, `list-${made}`);
  const piece = await writePiece(path, batchesOf(changed), batchesOf(held), limits);
  return { piece, text: readFileSync(path, 'utf8'), path };
}

/** In batches of up to three. */
async function* batchesOf(ranges: readonly Range[]): AsyncGenerator<readonly Range[]> {
  for (let at = 0; at < ranges.length; at += 3) yield ranges.slice(at, at + 3);
}

/** Adjacent ranges are not joined: a scan may split them anywhere. */
function randomRanges(random: Random): Range[] {
  const ranges: Range[] = [];
  for (let block = random.below(5); block < BLOCKS; ) {
    const length = Math.min(1 + random.below(20), BLOCKS - block);
    ranges.push({ offset: BigInt(block) * BLOCK, size: BigInt(length) * BLOCK });
    block += length + (random.below(3) === 0 ? 0 : random.below(15));
  }
  return ranges;
}

/** What a scan from there on would give. */
const from = (ranges: readonly Range[], start: bigint): Range[] =>
  ranges.flatMap(({ offset, size }) => {
    const begin = offset < start ? start : offset;
    return offset + size > begin ? [{ offset: begin, size: offset + size - begin }] : [];
  });

const blocksOf = (ranges: readonly Range[]): Set<number> =>
  new Set(
    ranges.flatMap(({ offset, size }) =>
      Array.from({ length: Number(size / BLOCK) }, (_, index) => Number(offset / BLOCK) + index),
    ),
  );

test('the pieces of a transfer name each changed block once, as data or as zeros, in order and within the limits', async () => {
  const random = seededRandom('pieces of a transfer');
  let cuts = 0;
  for (let round = 0; round < 150; round += 1) {
    const [changed, held] = [randomRanges(random), randomRanges(random)];
    const limits = { maxRanges: 1 + random.below(30), maxBytes: BLOCK * BigInt(1 + random.below(60)) };
    const isHeld = blocksOf(held);
    const [data, zeros] = [new Set<number>(), new Set<number>()];
    let position = 0n;
    let piece: Piece;
    for (let start: bigint | null = 0n; start !== null; start = piece.nextOffset) {
      const listed = await listOf(from(changed, start), from(held, start), limits);
      piece = listed.piece;
      const lines = listed.text.split('\n').slice(0, -1);
      assert.equal(lines.length, piece.ranges);
      assert.ok(piece.ranges <= limits.maxRanges && piece.dataBytes <= limits.maxBytes);
      let dataBytes = 0n;
      for (const line of lines) {
        const [offset = '', size = '', type] = line.split(' ');
        assert.ok(BigInt(offset) >= position, line);
        position = BigInt(offset) + BigInt(size);
        if (type === undefined) dataBytes += BigInt(size);
        const into = type === 'zero' ? zeros : data;
        for (const block of blocksOf([{ offset: BigInt(offset), size: BigInt(size) }])) {
          assert.ok(!into.has(block));
          into.add(block);
        }
      }
      assert.equal(piece.dataBytes, dataBytes);
      const left: number[] = [...blocksOf(from(changed, start))].filter((block) => isHeld.has(block));
      assert.equal(piece.remainingBytes, BigInt(left.length) * BLOCK);
      if (piece.nextOffset !== null) {
        assert.ok(piece.nextOffset >= position && piece.ranges > 0);
        cuts += 1;
      }
    }
    const wanted = [...blocksOf(changed)];
    assert.deepEqual(data, new Set(wanted.filter((block) => isHeld.has(block))));
    assert.deepEqual(zeros, new Set(wanted.filter((block) => !isHeld.has(block))));
  }
  assert.ok(cuts > 150);
});

const nothing = { dataBytes: 0n, nextOffset: null, remainingBytes: 0n, writtenBytes: 0n };
const factsOf = ({ requestSize: _, ...facts }: Piece): object => facts;

test('a range that is larger than a piece is cut, and zeros of any size are not', async () => {
  const limits = { maxRanges: 10, maxBytes: 1n << 30n };
  const changed = [{ offset: 0n, size: 1n << 44n }];
  const first = await listOf(changed, [{ offset: 0n, size: 3n << 30n }], limits);
  assert.equal(first.text, `0 ${1n << 30n}\n`);
  assert.equal(first.piece.nextOffset, 1n << 30n);
  assert.equal(first.piece.remainingBytes, 3n << 30n);
  assert.equal(first.piece.requestSize, 1 << 20);
  assert.equal(first.piece.writtenBytes, 1n << 30n);
  const gaps = Array.from({ length: 64 }, (_, index) => ({ offset: BigInt(index) * 2n * BLOCK, size: BLOCK }));
  const rounded = (await listOf(gaps, [{ offset: 0n, size: 1n << 20n }], { ...limits, maxRanges: 64 })).piece;
  // Larger requests would be faster, and would copy what lies between.
  assert.deepEqual([rounded.dataBytes, rounded.writtenBytes, rounded.requestSize], [64n * BLOCK, 64n * BLOCK, 4096]);
  const sectors = [{ offset: 512n, size: 1024n }];
  const least = (await listOf(sectors, sectors, limits)).piece;
  assert.deepEqual([least.dataBytes, least.writtenBytes], [1024n, BLOCK]);
  const zeros = await listOf(changed, [], limits);
  assert.equal(zeros.text, `0 ${1n << 44n} zero\n`);
  assert.deepEqual(factsOf(zeros.piece), { ranges: 1, ...nothing });
});

test('a list is readable for the program of another user, is never written over, and may be empty', async () => {
  const { piece, text, path } = await listOf([], [{ offset: 0n, size: BLOCK }], { maxRanges: 1, maxBytes: 1n });
  assert.deepEqual([factsOf(piece), text], [{ ranges: 0, ...nothing }, '']);
  assert.equal(statSync(path).mode & 0o777, 0o644);
  await assert.rejects(writePiece(path, batchesOf([]), batchesOf([])), { code: 'EEXIST' });
});

test('a failure of either scan is the failure of the list, and ends the other scan', async () => {
  let isEnded = false;
  async function* endless(): AsyncGenerator<readonly Range[]> {
    try {
      for (let at = 0n; ; at += 2n * BLOCK) yield [{ offset: at, size: BLOCK }];
    } finally {
      isEnded = true;
    }
  }
  async function* failing(): AsyncGenerator<readonly Range[]> {
    yield [{ offset: 0n, size: 8n * BLOCK }];
    throw new Error('the disk is gone');
  }
  const path = (name: string): string => join(directory, name);
  await assert.rejects(writePiece(path('a'), failing(), endless()), /the disk is gone/);
  assert.ok(isEnded);
  isEnded = false;
  await assert.rejects(writePiece(path('b'), endless(), failing()), /the disk is gone/);
  assert.ok(isEnded);
});
