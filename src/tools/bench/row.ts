/**
 * What a suite hands back: rows of figures, one for each round, and curves of how a cost grows. Plain data: how it
 * was measured is the suites' business, how it is shown that of report/.
 */
import { type Spread, spread } from './statistics.js';

/** One of the two things a row compares. */
export interface Side {
  label: string;
  unit: string;
  /** One figure a round, in the order of the rounds; empty if it was not measured. */
  rounds: number[];
  /** Why it was not measured: what was missing, and how to provide it. */
  missing?: string;
}

export type Judged = 'median' | 'min' | 'max';

/** What is compared with the bound: a figure a round, and which of them decides. */
export type Target = Bound & {
  label: string;
  unit: string;
  rounds: number[];
  judged: Judged;
};
export type Bound =
  | { atMost: number /** Better than the target, and not required. */; stretch?: number }
  | { atLeast: number; stretch?: number };

export interface Row {
  /** Unique in a report: lower-case words with dashes, the suite's name first. */
  name: string;
  measures: string;
  ours: Side;
  peer: Side;
  /** Which figures of a side are the better ones, for `bench compare`; lower if absent. */
  better?: 'lower' | 'higher';
  /** Without one, the row is judged by the speed table of the run, if that has its name. */
  target?: Target | null;
  /** Sizes and checks without which the figures mean nothing. */
  facts: Readonly<Record<string, string | number | boolean>>;
}

/** A row that a run is expected to have, and the bound that its figures are held against. */
export interface SpeedRow {
  name: string;
  suite: string;
  /** What is compared with the bound. */
  label: string;
  unit: string;
  judged: Judged;
  bound: Bound;
}

/** @param rounds what is compared with the bound; empty if it was not measured */
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

/** The peer's side, or a whole row's, when a package, a privilege or a file system is missing. */
export function missingSide(label: string, unit: string, missing: string): Side {
  return { label, unit, rounds: [], missing };
}

/** Ours divided by the peer's, round by round; empty if one of them was not measured. */
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

/** By how much a missed target is missed, as a fraction of its bound: 0.12 is 12 %. Null if it is not. */
export function missedBy(row: Pick<Row, 'target'>): number | null {
  const { target } = row;
  if (!target || verdict(row) !== 'missed') return null;
  const figure = judgedFigure(target);
  return 'atMost' in target ? figure / target.atMost - 1 : 1 - figure / target.atLeast;
}
