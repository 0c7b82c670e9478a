/** Tables for people: columns as wide as their widest cell, numbers to the right. */
import { cell, plainJson } from '../../base/plain-text.js';

export interface Column {
  title: string;
  /** To the right, as for numbers. */
  right?: boolean;
}

/** The last column is not padded. */
export function formatTable(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
): string {
  const cells = [columns.map(({ title }) => title), ...rows.map((row) => row.map(cell))];
  const widths = columns.map((_, at) => Math.max(...cells.map((row) => (row[at] ?? '').length)));
  const lines = cells.map((row) =>
    row
      .map((text, at) => {
        const width = widths[at] ?? 0;
        if (columns[at]?.right === true) return text.padStart(width);
        return at === columns.length - 1 ? text : text.padEnd(width);
      })
      .join('  ')
      .trimEnd(),
  );
  return `${lines.join('\n')}\n`;
}

/** JSON in which bigints are strings: most readers are inexact above 2^53. */
export function formatJson(value: unknown): string {
  const text = JSON.stringify(
    value,
    (_, each: unknown) => (typeof each === 'bigint' ? each.toString() : each),
    2,
  );
  return `${plainJson(text)}\n`;
}
