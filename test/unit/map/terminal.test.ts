/** The picture as text. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { CellCounter } from '../../../src/map/cells.js';
import { renderGrid, type Window } from '../../../src/map/terminal.js';

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
