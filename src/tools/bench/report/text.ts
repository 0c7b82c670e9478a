/** A whole report for a terminal: the machine, the table, and what each row means. */
import { type Row, ratios } from '../row.js';
import { spread } from '../statistics.js';
import type { Document } from './document.js';
import { tickLabel } from './scale.js';
import { columns, figure, sideCell, table } from './table.js';

export function formatText(document: Document): string {
  const { rows, curves, suites } = document;
  const parts = [heading(document)];
  if (rows.length > 0) parts.push(table(rows), rows.map(explain).join('\n'));
  for (const curve of curves) {
    const lines = curve.lines.flatMap(({ label, points }) =>
      points.map(({ x, rounds }) => [label, tickLabel(x), figure(spread(rounds).median)]),
    );
    parts.push(`${curve.title}\n${columns([['', curve.x, curve.y], ...lines])}`);
  }
  const failed = suites.filter(({ failure }) => failure !== null);
  if (failed.length > 0) {
    parts.push(failed.map(({ name, failure }) => `suite ${name} failed: ${failure}`).join('\n'));
  }
  parts.push(summary(document));
  return `${parts.join('\n\n')}\n`;
}

export function heading({ machine, seed, rounds, size, seconds }: Document): string {
  const warning = size === 'tiny' ? '\nTiny sizes: these figures mean nothing.' : '';
  return (
    `blockdelta ${machine.blockdelta}, ${machine.date}, ${seconds.toFixed(0)} s\n` +
    `Linux ${machine.kernel}, ${machine.cpus} CPUs (${machine.cpuModel}), ${machine.memoryMiB} MiB, ` +
    `Node.js ${machine.node}\n` +
    `${machine.temporaryDirectory}; load ${machine.loadBefore} before, ${machine.loadAfter} after\n` +
    `${rounds} rounds, seed ${seed}${warning}`
  );
}

export function summary({ rows }: Pick<Document, 'rows'>): string {
  const count = (wanted: string): number => rows.filter(({ verdict }) => verdict === wanted).length;
  const missed = rows.filter(({ verdict }) => verdict === 'missed').map(({ name }) => name);
  const names = missed.length === 0 ? '' : `: ${missed.join(', ')}`;
  const unmeasured = count('not measured');
  return (
    `${count('met')} targets met, ${missed.length} missed${names}` +
    (unmeasured > 0 ? `, ${unmeasured} not measured` : '')
  );
}

function explain(row: Row): string {
  const lines = [`${row.name}: ${row.measures}`];
  for (const side of [row.ours, row.peer]) {
    const { min, max } = spread(side.rounds);
    const range = side.rounds.length > 1 ? ` (${figure(min)}-${figure(max)})` : '';
    lines.push(`  ${sideCell(side)}${range}`);
  }
  if (ratios(row).length > 0 && row.better === 'higher') lines.push('  higher is better');
  const facts = Object.entries(row.facts).map(([name, value]) => `${name} ${value}`);
  if (facts.length > 0) lines.push(`  ${facts.join(', ')}`);
  return lines.join('\n');
}
