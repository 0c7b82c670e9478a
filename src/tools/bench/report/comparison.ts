/** The comparison of two reports for a terminal. */
import { humanSize } from '../../../base/human-size.js';
import { type ComparedRow, SIGNIFICANCE, SMALLEST_CHANGE } from '../compare.js';
import type { Document } from './document.js';
import { columns, figure } from './table.js';
import { heading } from './text.js';

export function formatComparison(a: Document, b: Document, rows: readonly ComparedRow[]): string {
  const lines = rows.map((row) => [
    row.name,
    row.change,
    row.figure,
    figure(row.before),
    figure(row.after),
    Number.isFinite(row.relative) ? `${row.relative > 0 ? '+' : ''}${figure(row.relative * 100)} %` : '-',
    Number.isNaN(row.p) ? '-' : row.p.toFixed(3),
  ]);
  const table = columns([['row', 'change', 'figure', 'A', 'B', 'shift', 'p'], ...lines]);
  const named = (change: string): string => {
    const names = rows.filter((row) => row.change === change).map(({ name }) => name);
    return names.length === 0 ? `${change}: none` : `${change}: ${names.join(', ')}`;
  };
  const rule =
    `a change counts from p <= ${SIGNIFICANCE} (exact Mann-Whitney over the rounds) and a shift of ` +
    `${SMALLEST_CHANGE * 100} % on`;
  const machines = sameMachine(a, b) ? [] : ['A and B are from different machines or kernels'];
  return `${[`A: ${heading(a)}`, `B: ${heading(b)}`, '', table, '', ...machines, ...differences(a, b), rule, named('better'), named('worse')].join('\n')}\n`;
}

/** A line for each option that makes figures differ although no program has changed. */
function differences(a: Document, b: Document): string[] {
  const options: Readonly<Record<string, (of: Document) => string>> = {
    'numbers of rounds': ({ rounds }) => String(rounds),
    sizes: ({ size }) => size,
    'volume sizes': ({ volumeBytes }) => (volumeBytes ? humanSize(BigInt(volumeBytes)) : 'the default'),
  };
  return Object.entries(options)
    .filter(([, of]) => of(a) !== of(b))
    .map(([name, of]) => `warning: A and B have different ${name} (${of(a)}, ${of(b)}): measure both with the same`);
}

function sameMachine(a: Document, b: Document): boolean {
  const of = ({ machine }: Document): string =>
    [machine.kernel, machine.cpuModel, machine.cpus, machine.memoryMiB].join();
  return of(a) === of(b);
}
