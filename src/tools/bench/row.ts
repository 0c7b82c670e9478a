/**
 * The results of a suite: rows of figures, one figure for each round, and curves of how a cost grows. Plain data: the
 * suites know how the figures are measured, and report/ knows how they are shown.
 */
import { type Spread, spread } from './statistics.js';

/** One of the two things a row compares. */
export interface Side {
  label: string;
  unit: string;
  /** One figure for each round, in the order of the rounds; empty if the side was not measured. */
  rounds: number[];
  /** Why the side was not measured: what was missing, and how to provide it. */
  missing?: string;
}

export type Judged = 'median' | 'min' | 'max';

/** The bound, the figure of each round, and the statistic of the figures that is compared with the bound. */
export type Target = Bound & {
  label: string;
  unit: string;
  rounds: number[];
  judged: Judged;
};
export type Bound =
  | { atMost: number /** A goal beyond the bound, not required. */; stretch?: number }
  | { atLeast: number; stretch?: number };

export interface Row {
  /** Unique in a report: lower-case words with dashes, the suite's name first. */
  name: string;
  measures: string;
  ours: Side;
  peer: Side;
  /** Whether lower or higher figures are better, for `bench compare`; lower if absent. */
  better?: 'lower' | 'higher';
  /** A row without a target is judged by the entry of its name in the run's speed table, if there is one. */
  target?: Target | null;
  /** Sizes and checks without which the figures mean nothing. */
  facts: Readonly<Record<string, string | number | boolean>>;
}

/** A row that a run is expected to have, and the bound for its figures. */
export interface SpeedRow {
  name: string;
  suite: string;
  /** Names the figure that is compared with the bound. */
  label: string;
  unit: string;
  judged: Judged;
  bound: Bound;
}

/** @param rounds the figures that are compared with the bound; empty if nothing was measured */
export function targetOf({ label, unit, judged, bound }: SpeedRow, rounds: number[]): Target {
  return { label, unit, judged, rounds, ...bound };
}

/** How a cost grows with one quantity. */
export interface Curve {
  name: string;
  title: string;
  /** What the horizontal axis shows, with its unit: 'extents', 'volume size (GiB)'. */
  x: string;
  y: string;
  lines: CurveLine[];
}

export interface CurveLine {
  label: string;
  points: { x: number; rounds: number[] }[];
}

/** A side that was not measured, because a package, a privilege or a file system is missing. */
export function missingSide(label: string, unit: string, missing: string): Side {
  return { label, unit, rounds: [], missing };
}

/** Ours divided by the peer's, round by round; empty if a side was not measured. */
export function ratios(row: Pick<Row, 'ours' | 'peer'>): number[] {
  const { ours, peer } = row;
  if (peer.rounds.length === 0) return [];
  return ours.rounds.map((figure, round) => figure / (peer.rounds[round] ?? Number.NaN));
}

export function judgedFigure(target: Target): number {
  return spread(target.rounds)[target.judged satisfies keyof Spread];
}

export type Verdict = 'met' | 'missed' | 'not measured' | 'no target';

export function verdict({ target }: Pick<Row, 'target'>): Verdict {
  if (!target) return 'no target';
  if (target.rounds.length === 0) return 'not measured';
  const figure = judgedFigure(target);
  const met = 'atMost' in target ? figure <= target.atMost : figure >= target.atLeast;
  return met ? 'met' : 'missed';
}

/** Returns the excess of a missed target as a fraction of its bound: 0.12 is 12 %. Null if the target is not missed. */
export function missedBy(row: Pick<Row, 'target'>): number | null {
  const { target } = row;
  if (!target || verdict(row) !== 'missed') return null;
  const figure = judgedFigure(target);
  return 'atMost' in target ? figure / target.atMost - 1 : 1 - figure / target.atLeast;
}
