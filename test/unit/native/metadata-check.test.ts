/** The judge of the integration tests: a list that misses one byte must not get past it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertSound, assertWellFormed, judge } from '../../support/metadata-check.js';
import { from, merged, pattern } from '../../support/ranges.js';
import { SnapshotImage } from '../../support/snapshot-image.js';

const SIZE = 300_000;
const range = (offset: number, size: number) => ({ offset: BigInt(offset), size: BigInt(size) });
const answer = (...ranges: { offset: bigint; size: bigint }[]) => ({
  type: 'VARIABLE_LENGTH',
  capacity: BigInt(SIZE),
  ranges,
  messages: 1,
});

function changed(...offsets: number[]): { base: SnapshotImage; target: SnapshotImage } {
  const before = Buffer.alloc(SIZE, 7);
  const after = Buffer.from(before);
  for (const offset of offsets) after[offset] = 8;
  const base = SnapshotImage.of(before);
  return { base, target: SnapshotImage.of(after, base) };
}

test('one byte that differs and is not in the list is found, wherever it is', () => {
  for (const offset of [0, 1, 511, 512, 65_535, 65_536, 150_001, SIZE - 1]) {
    const { base, target } = changed(offset);
    assert.equal(judge(base, target, []).missedBytes, 1, `${offset}`);
    assert.equal(judge(base, target, [range(offset, 1)]).missedBytes, 0);
    if (offset > 0) assert.equal(judge(base, target, [range(0, offset)]).missedBytes, 1);
    const behind = [range(offset + 1, SIZE - offset)];
    assert.equal(judge(base, target, behind).missedBytes, 1);
    assert.throws(() => assertSound(base, target, answer(), 'label'), /label: .*1 bytes missed/);
  }
});

test('what is reported and does not differ is counted, and is no fault', () => {
  const { base, target } = changed(1000);
  const tally = assertSound(base, target, answer(range(0, 4096)), 'label');
  assert.deepEqual([tally.differing, tally.reported, tally.missedBytes], [1, 8, 0]);
});

test('bytes that are not zero and not in an allocated list are found', () => {
  const content = Buffer.alloc(SIZE);
  content[70_000] = 1;
  const target = SnapshotImage.of(content);
  assert.equal(judge(SnapshotImage.zeros(SIZE), target, []).missedBytes, 1);
  assert.equal(judge(SnapshotImage.zeros(SIZE), target, [range(69_632, 4096)]).missedBytes, 0);
});

test('lists that are not ascending, apart, inside and typed are refused', () => {
  assertWellFormed(answer(range(0, 1), range(2, SIZE - 2)), SIZE);
  const bad = [
    answer(range(0, 0)),
    answer(range(0, 2), range(1, 2)),
    answer(range(0, 2), range(2, 2)),
    answer(range(4, 2), range(0, 2)),
    answer(range(0, SIZE + 1)),
    { ...answer(), type: 'FIXED_LENGTH' },
    { ...answer(), capacity: 1n },
  ];
  for (const list of bad) assert.throws(() => assertWellFormed(list, SIZE));
});

test('lists are cut and merged exactly', () => {
  const list = pattern(8192, 2048, 1024);
  assert.equal(list.length, 4);
  assert.deepEqual(from(list, 2048n + 100n)[0], range(2148, 924));
  assert.deepEqual(from(list, 3072n)[0], range(4096, 1024));
  assert.deepEqual(merged([range(0, 4), range(4, 4), range(9, 1)]), [range(0, 8), range(9, 1)]);
});
