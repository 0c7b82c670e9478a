/** Formats a report as tables for docs/engineering/performance.md. */
import { type Curve, type Row, verdict } from '../row.js';
import { spread } from '../statistics.js';
import type { Document, ReportedRow } from './document.js';
import { tickLabel } from './scale.js';
import { figure, ratioCell, sideCell, targetCell, verdictCell } from './table.js';
import { heading } from './text.js';

export function formatMarkdown(document: Document): string {
  const promised = document.rows.filter(({ target }) => target !== null);
  const others = document.rows.filter(({ target }) => target === null);
  const parts = [heading(document).split('\n').join('<br>\n')];
  const cells = (row: ReportedRow): string[] => [
    `\`${row.name}\``,
    row.measures,
    sideCell(row.ours),
    sideCell(row.peer),
    ratioCell(row),
  ];
  if (promised.length > 0) {
    const lines = promised.map((row) => [...cells(row), targetCell(row.target), mark(row)]);
    parts.push(rows([...HEAD, 'target', 'verdict'], lines));
  }
  if (others.length > 0) parts.push(rows(HEAD, others.map(cells)));
  parts.push(...document.curves.map(curveTable));
  return `${parts.join('\n\n')}\n`;
}

const HEAD = ['row', 'measure', 'ours', 'peer', 'ratio'];

/** Each line of the chart becomes a line of the table, with its medians. */
function curveTable({ title, x, y, lines }: Curve): string {
  const points = [...new Set(lines.flatMap((line) => line.points.map((point) => point.x)))];
  points.sort((a, b) => a - b);
  const body = lines.map(({ label, points: own }) => {
    const cells = points.map((each) => {
      const found = own.find((point) => point.x === each);
      return found === undefined ? '' : figure(spread(found.rounds).median);
    });
    return [label, ...cells];
  });
  return `${title}; ${y}:\n\n${rows([x, ...points.map(tickLabel)], body)}`;
}

function mark(row: Row): string {
  return verdict(row) === 'missed' ? `**${verdictCell(row)}**` : verdictCell(row);
}

function rows(head: readonly string[], lines: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(head), `|${head.map(() => '---').join('|')}|`, ...lines.map(line)].join('\n');
}
