/** Lists counted in cells, beside a count of every byte. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Entry } from '../../../src/client/list.js';
import { CellCounter, coarsen, MAX_CELLS, shareOfCell } from '../../../src/map/cells.js';
import { LEVELS, levelOf } from '../../../src/map/levels.js';
import { seededRandom } from '../../support/random.js';

test('every cell counts exactly the bytes of the list that lie in it, at every size of cells', () => {
  const random = seededRandom('map cells');
  for (let round = 0; round < 200; round += 1) {
    const capacity = random.below(300_000) + 1;
    const bytes = new Uint8Array(capacity);
    const entries: Entry[] = [];
    for (let at = random.below(9000); at < capacity; at += random.below(30_000)) {
      const size = Math.min(random.below(20_000) + 1, capacity - at);
      entries.push({ offset: BigInt(at), size: BigInt(size) });
      bytes.fill(1, at, at + size);
      at += size;
    }
    const counter = new CellCounter(BigInt(capacity), random.below(60) + 20);
    for (let at = 0; at < entries.length; at += 3) counter.add(entries.slice(at, at + 3));
    for (const cells of [counter, coarsen(counter, random.below(15) + 1)]) {
      const cell = Number(cells.cellBytes);
      assert.equal(cells.bytes.length, Math.ceil(capacity / cell));
      cells.bytes.forEach((counted, index) => {
        const part = bytes.subarray(index * cell, (index + 1) * cell);
        const expected = part.reduce((sum, byte) => sum + byte, 0);
        assert.equal(counted, expected, `cell ${index} of ${cell} bytes`);
        assert.equal(shareOfCell(cells, index), expected / part.length);
      });
      assert.equal(cells.ranges, entries.length);
      assert.equal(
        cells.totalBytes,
        entries.reduce((sum, { size }) => sum + size, 0n),
      );
    }
  }
});

test('the largest volume has a bounded number of cells, and its last byte lies in the last one', () => {
  const capacity = 2n ** 63n - 1n;
  const cells = new CellCounter(capacity);
  assert.equal(cells.bytes.length, MAX_CELLS);
  cells.add([{ offset: capacity - 1n, size: 1n }]);
  assert.equal(cells.bytes.at(-1), 1);
  assert.equal(
    cells.bytes.subarray(0, -1).every((value) => value === 0),
    true,
  );
});

test('a volume of no bytes has no cells', () => {
  assert.equal(new CellCounter(0n).bytes.length, 0);
});

test('one changed byte is more than none, and one unchanged byte less than all', () => {
  const size = 2n ** 45n;
  const cells = new CellCounter(3n * size, 3);
  cells.add([
    { offset: size, size: 1n },
    { offset: 2n * size, size: size - 1n },
  ]);
  const labels = [0, 1, 2].map((index) => LEVELS[levelOf(shareOfCell(cells, index))]?.label);
  assert.deepEqual(labels, ['none', 'up to 1 %', 'under 100 %']);
});
