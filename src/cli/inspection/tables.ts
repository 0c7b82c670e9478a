/** Tables for people: columns as wide as their widest cell, numbers to the right. */

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
  const cells = [columns.map(({ title }) => title), ...rows];
  const widths = columns.map((_, at) => Math.max(...cells.map((row) => (row[at] ?? '').length)));
  const lines = cells.map((row) =>
    row
      .map((cell, at) => {
        const width = widths[at] ?? 0;
        if (columns[at]?.right === true) return cell.padStart(width);
        return at === columns.length - 1 ? cell : cell.padEnd(width);
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
  return `${text}\n`;
}
