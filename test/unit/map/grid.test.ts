/** Lists counted in cells, beside a count of every byte, and the picture of the cells as text. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import type { Entry } from '../../../src/tools/client/list.js';
import { CellCounter, coarsen, MAX_CELLS, shareOfCell } from '../../../src/tools/map/cells.js';
import { LEVELS, levelOf } from '../../../src/tools/map/levels.js';
import { renderGrid, type Window } from '../../../src/tools/map/terminal.js';
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

const MIB = 1024n ** 2n;
const WINDOW: Window = { columns: 80, rows: 4, colours: false, unicode: true };

/** 64 MiB: full at the start, half a cell at 16 MiB, one page at 40 MiB, full at the end. */
function cells(): CellCounter {
  const counter = new CellCounter(64n * MIB);
  counter.add([
    { offset: 0n, size: MIB },
    { offset: 16n * MIB, size: MIB / 8n },
    { offset: 40n * MIB, size: 4096n },
    { offset: 63n * MIB, size: MIB },
  ]);
  return counter;
}

test('each line begins with its offset, and each cell is as high as its share', () => {
  const [empty, full] = ['·', '█'];
  assert.equal(
    renderGrid(cells(), WINDOW),
    [
      `       0 B ${full.repeat(4)}${empty.repeat(60)}`,
      `    16 MiB ▅${empty.repeat(63)}`,
      `    32 MiB ${empty.repeat(32)}▃${empty.repeat(31)}`,
      `    48 MiB ${empty.repeat(60)}${full.repeat(4)}`,
      '',
      'one cell is 256 KiB   · none   ▁ up to 1 %   ▃ up to 10 %   ▅ up to 50 %',
      '▇ under 100 %   █ all',
      '',
    ].join('\n'),
  );
});

test('a terminal without UTF-8 gets ASCII', () => {
  const text = renderGrid(cells(), { ...WINDOW, unicode: false });
  assert.match(text, /^ {7}0 B ####\.{60}\n {4}16 MiB x\.{63}\n/);
  assert.match(text, /^[\n -~]*$/);
});

test('colours change nothing but colours', () => {
  const text = renderGrid(cells(), { ...WINDOW, colours: true });
  assert.ok(text.includes('\x1b[38;5;196m████\x1b[0m'), text);
  assert.equal(stripVTControlCharacters(text), renderGrid(cells(), WINDOW));
});

test('no line is wider than the window, and there are no more lines of cells than asked for', () => {
  for (const columns of [40, 41, 79, 80, 132, 200, 317]) {
    for (const rows of [1, 7, 50]) {
      const text = renderGrid(cells(), { ...WINDOW, columns, rows });
      const [grid = ''] = text.split('\n\n');
      for (const line of text.split('\n')) assert.ok(line.length <= columns, `${columns}: ${line}`);
      assert.ok(grid.split('\n').length <= rows, `${rows}: ${grid}`);
      assert.match(grid, /^ +0 B [█▅▃]/);
    }
  }
});

test('a volume of one byte is one cell', () => {
  const counter = new CellCounter(1n);
  counter.add([{ offset: 0n, size: 1n }]);
  assert.match(renderGrid(counter, WINDOW), /^ +0 B █\n\n/);
});
