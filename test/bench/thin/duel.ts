/** The native scan and thin_delta on the same metadata: first whether they agree, then how long they take. */

import type { Addon } from '../../../src/driver/native/addon.js';
import type { Row } from '../../../src/tools/bench/row.js';
import { median } from '../../../src/tools/bench/statistics.js';
import { type Settings, shuffledRounds } from '../../../src/tools/bench/suite.js';
import type { Metadata } from './metadata.js';
import { scanOnce, thinSource } from './scan.js';
import { readThinDelta, timeThinDelta } from './thin-delta.js';

const MIN_RUNS = 3;
const RUNS_MS = 100;
/** What is left of thin_delta without its start, at least: tiny metadata takes less than the start varies. */
const LEAST_MS = 0.01;

export interface Duel {
  name: string;
  measures: string;
  metadata: Metadata;
  /** Metadata of next to nothing, in memory: what it costs to start thin_delta. */
  empty: Metadata;
  /** Offsets and sizes of the ranges that have to be found. */
  expected: readonly number[];
  atLeastTimes: number;
  facts: Row['facts'];
}

/** Offsets and sizes of all ranges that our scan and thin_delta find. Throws unless they are the same. */
export async function agreedRanges(addon: Addon, metadata: Metadata): Promise<number[]> {
  const ours = rangesOf(addon, metadata);
  const theirs: number[] = [];
  await readThinDelta(metadata.path, (...range) => theirs.push(...range));
  assertSame(metadata.path, ours, theirs);
  return ours;
}

function rangesOf(addon: Addon, metadata: Metadata): number[] {
  const ranges: number[] = [];
  scanOnce(addon, thinSource(addon, metadata), (...range) => ranges.push(...range));
  return ranges;
}

function assertSame(path: string, ours: readonly number[], expected: readonly number[]): void {
  if (ours.length === expected.length && ours.every((value, at) => value === expected[at])) return;
  const first = ours.findIndex((value, at) => value !== expected[at]);
  throw new Error(
    `${path}: our scan finds ${ours.length / 2} ranges and should find ${expected.length / 2}; ` +
      `the first that differs is number ${first < 0 ? ours.length / 2 : first >> 1}`,
  );
}

export async function duel(
  settings: Settings,
  addon: Addon,
  { name, measures, metadata, empty, expected, atLeastTimes, facts }: Duel,
): Promise<Row> {
  assertSame(metadata.path, rangesOf(addon, metadata), expected);
  const source = thinSource(addon, metadata);
  const found = scanOnce(addon, source);
  const ours = (): Promise<number> => settled(() => scanOnce(addon, source).ms);
  const theirs = (): Promise<number> => timeThinDelta(metadata.path);
  const starting = (): Promise<number> => timeThinDelta(empty.path);
  const times = await shuffledRounds(settings, [ours, theirs, starting], (each) => each());
  const roundsOf = (contender: typeof ours): number[] => times.get(contender) ?? [];
  const starts = median(roundsOf(starting));
  const scans = roundsOf(ours);
  const deltas = roundsOf(theirs).map((ms) => Math.max(ms - starts, LEAST_MS));
  settings.say(`${name}: ${median(scans).toFixed(1)} and ${median(deltas).toFixed(1)} ms`);
  return {
    name,
    measures,
    ours: { label: 'scan', unit: 'ms', rounds: scans },
    peer: { label: 'thin_delta', unit: 'ms', rounds: deltas },
    target: {
      label: 'faster',
      unit: ' times',
      rounds: deltas.map((peer, round) => peer / (scans[round] ?? Number.NaN)),
      judged: 'median',
      atLeast: atLeastTimes,
    },
    facts: {
      ...facts,
      ranges: found.ranges,
      bytes: Number(found.bytes),
      'nodes read': found.nodes,
      'start of thin_delta ms': starts.toFixed(1),
    },
  };
}

/** The median of several runs: what a round counts where one run is over too soon. */
export async function settled(once: () => number | Promise<number>): Promise<number> {
  const times: number[] = [];
  for (let sum = 0; times.length < MIN_RUNS || sum < RUNS_MS; ) {
    const ms = await once();
    times.push(ms);
    sum += ms;
  }
  return median(times);
}
