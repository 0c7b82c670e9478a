/** Rows as a table for a terminal. */
import { judgedFigure, missedBy, type Row, ratios, type Side, verdict } from '../row.js';
import { spread } from '../statistics.js';

export const HEADINGS = ['row', 'ours', 'beside', 'ratio: median (min-max)', 'target', 'verdict'];

export function table(rows: readonly Row[]): string {
  return columns([HEADINGS, ...rows.map(cells)]);
}

/** Formats a figure with three or more significant digits, and at most six decimals. */
export function figure(value: number): string {
  if (Number.isNaN(value)) return '-';
  if (value === 0) return '0';
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return value.toFixed(Math.min(digits, 6));
}

export function verdictCell(row: Row): string {
  const by = missedBy(row);
  if (by === null) return verdict(row);
  return `missed by ${figure(by * 100)} %`;
}

export function targetCell(target: Row['target']): string {
  if (!target) return 'none';
  const found = target.rounds.length === 0 ? '' : ` (${figure(judgedFigure(target))})`;
  const bound = 'atMost' in target ? `<= ${target.atMost}` : `>= ${target.atLeast}`;
  const stretch = target.stretch === undefined ? '' : `, stretch ${target.stretch}`;
  return `${target.label} ${bound}${target.unit}${stretch}${found}`;
}

export function sideCell({ label, unit, rounds, missing }: Side): string {
  if (rounds.length === 0) return `${label}: not measured: ${missing ?? 'no reason given'}`;
  return `${figure(spread(rounds).median)} ${unit} ${label}`.trimEnd();
}

export function ratioCell(row: Row): string {
  const found = ratios(row);
  if (found.length === 0) return '-';
  const { median, min, max } = spread(found);
  return `${figure(median)} (${figure(min)}-${figure(max)})`;
}

/** Formats each row of cells as one line, with aligned columns and a rule under the first line. */
export function columns(lines: readonly (readonly string[])[]): string {
  const [head = []] = lines;
  const widths = head.map((_, column) => Math.max(...lines.map((line) => (line[column] ?? '').length)));
  const [first, ...body] = lines.map((line) =>
    line
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
  return [first, widths.map((width) => '-'.repeat(width)).join('  '), ...body].join('\n');
}

function cells(row: Row): string[] {
  // A reason takes too much room in a column, so it stands under the table.
  const short = (side: Side): string => (side.rounds.length === 0 ? `${side.label}: not measured` : sideCell(side));
  return [row.name, short(row.ours), short(row.peer), ratioCell(row), targetCell(row.target), verdictCell(row)];
}
