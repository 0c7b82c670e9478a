/** A report as tables for docs/performance.md. */
import { type Curve, type Row, verdict } from '../row.js';
import { spread } from '../statistics.js';
import { SPEED_TABLE, type TargetRow } from '../targets.js';
import type { Document } from './document.js';
import { tickLabel } from './scale.js';
import { figure, ratioCell, sideCell, targetCell, verdictCell } from './table.js';
import { heading } from './text.js';

export function formatMarkdown(document: Document): string {
  const targets = new Map<string, TargetRow>(SPEED_TABLE.map((row) => [row.name, row]));
  const promised = document.rows.filter(({ name }) => targets.has(name));
  const others = document.rows.filter(({ name }) => !targets.has(name));
  const parts = [heading(document).split('\n').join('<br>\n')];
  if (promised.length > 0) {
    const lines = promised.map((row) => {
      const { measure = '', beside = '' } = targets.get(row.name) ?? {};
      return [
        `\`${row.name}\``,
        measure,
        beside,
        ...figures(row),
        targetCell(row.target),
        mark(row),
      ];
    });
    const head = ['row', 'measure', 'beside', 'ours', 'peer', 'ratio', 'target', 'verdict'];
    parts.push(rows(head, lines));
  }
  if (others.length > 0) {
    const lines = others.map((row) => [
      `\`${row.name}\``,
      row.measures,
      ...figures(row),
      mark(row),
    ]);
    parts.push(rows(['row', 'measure', 'ours', 'peer', 'ratio', 'verdict'], lines));
  }
  parts.push(...document.curves.map(curveTable));
  return `${parts.join('\n\n')}\n`;
}

/** A line of the chart is a line of the table; its medians. */
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

function figures(row: Row): string[] {
  return [sideCell(row.ours), sideCell(row.peer), ratioCell(row)];
}

function mark(row: Row): string {
  return verdict(row) === 'missed' ? `**${verdictCell(row)}**` : verdictCell(row);
}

function rows(head: readonly string[], lines: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(head), `|${head.map(() => '---').join('|')}|`, ...lines.map(line)].join('\n');
}
