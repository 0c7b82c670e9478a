/** Draws the picture as text: one character for each cell, by height and, if the terminal has colours, by colour. */
import { humanSize } from '../../base/human-size.js';
import { type Cells, coarsen, shareOfCell } from './cells.js';
import { LEVELS, levelOf } from './levels.js';

export interface Window {
  /** Characters in a line. */
  readonly columns: number;
  /** Most lines of cells. */
  readonly rows: number;
  /** Whether the terminal has 256 colours and the reader wants them. */
  readonly colours: boolean;
  /** Whether the terminal shows more than ASCII. */
  readonly unicode: boolean;
}

const BARS = ['·', '▁', '▃', '▅', '▇', '█'] as const;
const ASCII = ['.', '-', '+', 'x', '%', '#'] as const;
/** From the 256 colours: grey, then yellow to red. They are readable on black and on white. */
const COLOURS = [244, 178, 172, 208, 202, 196] as const;
/** Lines have a multiple of this number of cells, and at least this number: the terminal of a narrower window wraps them. */
const CELLS_IN_GROUP = 8;

/** Each line begins with the offset of its first cell. The legend is below the cells. */
export function renderGrid(fine: Cells, window: Window): string {
  const gutter = gutterOf(fine.capacityBytes);
  const inLine = roundLength(window.columns - gutter - 1);
  const cells = coarsen(fine, inLine * Math.max(window.rows, 1));
  const paint = painter(window);
  const lines: string[] = [];
  for (let first = 0; first < cells.bytes.length; first += inLine) {
    const levels = Array.from(cells.bytes.subarray(first, first + inLine), (_, index) =>
      levelOf(shareOfCell(cells, first + index)),
    );
    const offset = humanSize(BigInt(first) * cells.cellBytes).padStart(gutter);
    lines.push(`${offset} ${runs(levels).map(paint).join('')}\n`);
  }
  return `${lines.join('')}\n${legend(cells, window, paint)}`;
}

interface Run {
  level: number;
  length: number;
}

function runs(levels: readonly number[]): Run[] {
  const found: Run[] = [];
  for (const level of levels) {
    const last = found.at(-1);
    if (last?.level === level) last.length += 1;
    else found.push({ level, length: 1 });
  }
  return found;
}

function painter({ colours, unicode }: Window): (run: Run) => string {
  const glyphs = unicode ? BARS : ASCII;
  return ({ level, length }) => {
    const text = (glyphs[level] ?? '?').repeat(length);
    return colours ? `\x1b[38;5;${COLOURS[level]}m${text}\x1b[0m` : text;
  };
}

/** Formats the legend in as many lines as the window needs. */
function legend(cells: Cells, window: Window, paint: (run: Run) => string): string {
  const words = LEVELS.map(({ label }, level) => ({
    width: label.length + 2,
    text: `${paint({ level, length: 1 })} ${label}`,
  }));
  const size = `one cell is ${humanSize(cells.cellBytes)}`;
  const lines: string[] = [];
  let width = Number.POSITIVE_INFINITY;
  for (const word of [{ width: size.length, text: size }, ...words]) {
    if (width + 3 + word.width <= window.columns) {
      lines[lines.length - 1] += `   ${word.text}`;
      width += 3 + word.width;
    } else {
      lines.push(word.text);
      width = word.width;
    }
  }
  return `${lines.join('\n')}\n`;
}

/** Returns a multiple of eight, so that lines begin at round offsets. */
function roundLength(limit: number): number {
  return Math.max(limit - (limit % CELLS_IN_GROUP), CELLS_IN_GROUP);
}

/** Returns a width for every offset: '1023.5 GiB'. */
function gutterOf(capacityBytes: bigint): number {
  return capacityBytes < 1024n ** 2n ? 8 : 10;
}
