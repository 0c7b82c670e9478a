/**
 * Finds what changed between two reports beyond noise.
 *
 * A row is compared by the figures that judge it: ours divided by the peer's of the same round. Both had the same
 * frequency, neighbours and load, which differ between runs and would distort an absolute figure.
 *
 * The test is the exact, two-sided test of Mann and Whitney. It uses only the order of the rounds: rounds on a shared
 * machine have a long tail on one side, so a test on means would need more rounds than anybody runs, and one slow round
 * must not decide. Five rounds against five reach p = 0.008 when no round of one run lies among those of the other, so
 * the limit of 0.01 requires exactly that. With more rounds, some may overlap. Of a hundred unchanged rows, one is
 * expected to pass the test by chance.
 *
 * Rounds of one run share conditions that last for minutes, and the test cannot see them. So a change must also be
 * large: the shift (Hodges and Lehmann: the median of all differences between a round of one run and one of the other)
 * must be at least 5 % of the older median.
 */
import type { Document } from './report/document.js';
import { type Row, ratios } from './row.js';
import { median } from './statistics.js';

export const SIGNIFICANCE = 0.01;
export const SMALLEST_CHANGE = 0.05;

export type Change = 'better' | 'worse' | 'same' | 'too few rounds' | 'only in A' | 'only in B';

export interface ComparedRow {
  name: string;
  change: Change;
  /** What the figures are: 'ratio', 'growth', or the unit of an absolute figure. */
  figure: string;
  before: number;
  after: number;
  /** The shift as a fraction of the older median. */
  relative: number;
  /** The probability of such a difference if nothing changed. */
  p: number;
}

export function compare(a: Pick<Document, 'rows'>, b: Pick<Document, 'rows'>): ComparedRow[] {
  const after = new Map(b.rows.map((row) => [row.name, row]));
  const both = a.rows.map((row) => compareRow(row, after.get(row.name)));
  const known = new Set(a.rows.map(({ name }) => name));
  const added = b.rows.filter(({ name }) => !known.has(name)).map((row) => absent(row.name, 'only in B'));
  return [...both, ...added];
}

function compareRow(before: Row, after: Row | undefined): ComparedRow {
  if (after === undefined) return absent(before.name, 'only in A');
  const [a, b] = comparable(before, after);
  if (a.rounds.length === 0) return absent(before.name, 'only in B');
  if (b.rounds.length === 0) return absent(before.name, 'only in A');
  const old = median(a.rounds);
  const shift = hodgesLehmann(a.rounds, b.rounds);
  const p = mannWhitney(a.rounds, b.rounds);
  return {
    name: before.name,
    figure: a.figure,
    before: old,
    after: median(b.rounds),
    relative: shift / Math.abs(old),
    p,
    change: judge(a, b, { relative: shift / Math.abs(old), p }),
  };
}

interface Figures {
  figure: string;
  rounds: readonly number[];
  lowerIsBetter: boolean;
}

/** Takes the same kind of figure from both rows: the figure that the target judges, else the ratio, else ours alone. */
function comparable(a: Row, b: Row): [Figures, Figures] {
  const kinds: ((row: Row) => Figures)[] = [
    ({ target }) => ({
      figure: target?.label ?? '',
      rounds: target?.rounds ?? [],
      lowerIsBetter: !!target && 'atMost' in target,
    }),
    (row) => ({ figure: 'ratio', rounds: ratios(row), lowerIsBetter: row.better !== 'higher' }),
  ];
  const isEnough = ({ rounds }: Figures): boolean => rounds.length > 1;
  for (const kind of kinds) {
    const pair: [Figures, Figures] = [kind(a), kind(b)];
    if (pair.every(isEnough)) return pair;
  }
  const own = ({ ours, better }: Row): Figures => ({
    figure: ours.unit,
    rounds: ours.rounds,
    lowerIsBetter: better !== 'higher',
  });
  return [own(a), own(b)];
}

function judge(a: Figures, b: Figures, { relative, p }: { relative: number; p: number }): Change {
  if (lowestP(a.rounds.length, b.rounds.length) > SIGNIFICANCE) return 'too few rounds';
  if (p > SIGNIFICANCE || Math.abs(relative) < SMALLEST_CHANGE) return 'same';
  return relative < 0 === a.lowerIsBetter ? 'better' : 'worse';
}

function absent(name: string, change: 'only in A' | 'only in B'): ComparedRow {
  const none = { before: Number.NaN, after: Number.NaN, relative: Number.NaN, p: Number.NaN };
  return { name, change, figure: '', ...none };
}

/** The median of all differences between a figure of b and one of a. */
export function hodgesLehmann(a: readonly number[], b: readonly number[]): number {
  return median(a.flatMap((x) => b.map((y) => y - x)));
}

/** Returns p for the case that each figure of one side lies below each figure of the other. */
export function lowestP(a: number, b: number): number {
  let ways = 1;
  for (let k = 1; k <= b; k += 1) ways = (ways * (a + k)) / k;
  return Math.min(1, 2 / ways);
}

/** Returns the exact two-sided p of the U of Mann and Whitney. Ties count half, so p is never too small. */
export function mannWhitney(a: readonly number[], b: readonly number[]): number {
  let u = 0;
  for (const x of a) for (const y of b) u += x < y ? 1 : x === y ? 0.5 : 0;
  const extreme = Math.ceil(Math.min(u, a.length * b.length - u));
  const counts = distributionOfU(a.length, b.length);
  const total = counts.reduce((sum, count) => sum + count, 0);
  const tail = counts.slice(0, extreme + 1).reduce((sum, count) => sum + count, 0);
  return Math.min(1, (2 * tail) / total);
}

/** Counts the orders of m and n figures for each value of U, with the usual recursion over the largest figure. */
function distributionOfU(m: number, n: number): number[] {
  // counts[j][u] is the number of orders of the first i figures of one side and j of the other.
  let counts = Array.from({ length: n + 1 }, () => [1]);
  for (let i = 1; i <= m; i += 1) {
    const next: number[][] = [[1]];
    for (let j = 1; j <= n; j += 1) {
      const merged = new Array<number>(i * j + 1).fill(0);
      // If the largest figure is of the first side, it lies above all j figures of the other side.
      for (const [u, count] of (counts[j] ?? []).entries()) merged[u + j] = (merged[u + j] ?? 0) + count;
      for (const [u, count] of (next[j - 1] ?? []).entries()) merged[u] = (merged[u] ?? 0) + count;
      next.push(merged);
    }
    counts = next;
  }
  return counts[n] ?? [1];
}
