/** Tables for people, with columns as wide as their widest cell and numbers aligned to the right, and JSON. */
import { cell, plainJson } from '../../base/plain-text.js';

/** @param numbers the titles of the columns that are aligned to the right */
export function formatTable(
  titles: readonly string[],
  numbers: readonly string[],
  rows: readonly (readonly string[])[],
): string {
  const cells = [titles, ...rows.map((row) => row.map(cell))];
  const widths = titles.map((_, at) => cells.reduce((width, row) => Math.max(width, row[at]?.length ?? 0), 0));
  const lines = cells.map((row) => {
    const aligned = row.map((text, at) => {
      const width = widths[at] ?? 0;
      return numbers.includes(titles[at] ?? '') ? text.padStart(width) : text.padEnd(width);
    });
    return `${aligned.join('  ').trimEnd()}\n`;
  });
  return lines.join('');
}

/** JSON in which bigints are strings: most readers are inexact above 2^53. */
export function formatJson(value: unknown): string {
  const text = JSON.stringify(value, (_, each: unknown) => (typeof each === 'bigint' ? each.toString() : each), 2);
  return `${plainJson(text)}\n`;
}
