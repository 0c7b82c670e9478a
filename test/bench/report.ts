/** What a benchmark row found, and how it is shown: figures of every round, medians, the verdict. */
import { readFileSync } from 'node:fs';
import { availableParallelism, release } from 'node:os';

export interface Side {
  label: string;
  unit: string;
  /** One figure a round. */
  rounds: number[];
}

/** What is held against the target: a figure a round, and which of them decides. */
export type Target = Bound & {
  label: string;
  unit: string;
  rounds: number[];
  judged: 'median' | 'max';
};
type Bound = { atMost: number } | { atLeast: number };

export interface Row {
  name: string;
  measures: string;
  ours: Side;
  peer: Side;
  /** Null: the row is there to be read, nothing is promised. */
  target: Target | null;
  /** Sizes and checks that the figures only mean something with. */
  facts: Readonly<Record<string, string | number | boolean>>;
}

export interface Spread {
  median: number;
  min: number;
  max: number;
}

export interface Machine {
  date: string;
  kernel: string;
  cpus: number;
  cpuModel: string;
  node: string;
  /** Runnable and running tasks over the last minute when the run began: how quiet the machine was. */
  loadAverage: string;
}

export function spread(values: readonly number[]): Spread {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  const lower = sorted[sorted.length - 1 - middle] ?? Number.NaN;
  return {
    median: (lower + upper) / 2,
    min: sorted[0] ?? Number.NaN,
    max: sorted.at(-1) ?? Number.NaN,
  };
}

/** Ours divided by the peer's, round by round. */
export function ratios(row: Row): number[] {
  return row.ours.rounds.map((ours, round) => ours / (row.peer.rounds[round] ?? Number.NaN));
}

export function judgedFigure(target: Target): number {
  return spread(target.rounds)[target.judged];
}

export function isMet(row: Row): boolean | null {
  const { target } = row;
  if (target === null) return null;
  const figure = judgedFigure(target);
  return 'atMost' in target ? figure <= target.atMost : figure >= target.atLeast;
}

export function machine(): Machine {
  const model = /^model name\s*:\s*(.*)$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'));
  return {
    date: new Date().toISOString(),
    kernel: release(),
    cpus: availableParallelism(),
    cpuModel: model?.[1] ?? 'unknown',
    node: process.version,
    loadAverage: readFileSync('/proc/loadavg', 'utf8').split(' ')[0] ?? '',
  };
}

const HEADINGS = ['row', 'ours', 'peer', 'ratio: median (min-max)', 'target', 'verdict'];

export function table(rows: readonly Row[]): string {
  const lines = [HEADINGS, ...rows.map(cells)];
  const widths = HEADINGS.map((_, column) =>
    Math.max(...lines.map((line) => (line[column] ?? '').length)),
  );
  const [head, ...body] = lines.map((line) =>
    line
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
  const rule = widths.map((width) => '-'.repeat(width)).join('  ');
  return [head, rule, ...body].join('\n');
}

export function toJson(rows: readonly Row[], facts: Machine, rounds: number): string {
  const document = {
    machine: facts,
    rounds,
    rows: rows.map((row) => ({
      ...row,
      ratio: spread(ratios(row)),
      ratios: ratios(row),
      met: isMet(row),
    })),
  };
  return `${JSON.stringify(document, null, 2)}\n`;
}

function cells(row: Row): string[] {
  const { median, min, max } = spread(ratios(row));
  return [
    row.name,
    side(row.ours),
    side(row.peer),
    `${figure(median)} (${figure(min)}-${figure(max)})`,
    targetCell(row.target),
    verdict(row),
  ];
}

function side({ label, unit, rounds }: Side): string {
  return `${figure(spread(rounds).median)} ${unit} ${label}`;
}

function targetCell(target: Target | null): string {
  if (target === null) return 'none';
  const found = `${target.judged} ${figure(judgedFigure(target))}`;
  const bound = 'atMost' in target ? `<= ${target.atMost}` : `>= ${target.atLeast}`;
  return `${target.label} ${bound}${target.unit} (${found})`;
}

function verdict(row: Row): string {
  const met = isMet(row);
  if (met === null) return '-';
  return met ? 'met' : 'NOT met';
}

/** Three digits that say something. */
function figure(value: number): string {
  if (Math.abs(value) >= 100) return value.toFixed(0);
  if (Math.abs(value) >= 10) return value.toFixed(1);
  return value.toFixed(Math.abs(value) >= 1 ? 2 : 4);
}
