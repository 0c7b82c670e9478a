/** The native scan and thin_delta on the same metadata: first whether they agree, then how long they take. */

import type { Row } from '../../src/bench/row.js';
import { spread } from '../../src/bench/statistics.js';
import type { Addon } from '../../src/native/addon.js';
import { orderOf } from './order.js';
import { readThinDelta, timeThinDelta } from './thin-peer.js';
import { scanOnce, thinSource } from './thin-scan.js';

const MIN_RUNS = 3;
const RUNS_MS = 100;

export interface DuelSettings {
  addon: Addon;
  rounds: number;
  /** Metadata of next to nothing, in memory: what it costs to start thin_delta. */
  empty: string;
  say(text: string): void;
}

export interface Duel {
  name: string;
  measures: string;
  /** A file or a device. */
  metadata: string;
  /** What has to be found there. */
  expected: readonly number[];
  atLeastTimes: number;
  facts: Row['facts'];
}

/** Offsets and sizes of all ranges that our scan and thin_delta find. Throws unless they are the same. */
export async function agreedRanges(addon: Addon, metadata: string): Promise<number[]> {
  const ours = rangesOf(addon, metadata);
  const theirs: number[] = [];
  await readThinDelta(metadata, (...range) => theirs.push(...range));
  assertSame(metadata, ours, theirs);
  return ours;
}

function rangesOf(addon: Addon, metadata: string): number[] {
  const ranges: number[] = [];
  scanOnce(addon, thinSource(addon, metadata), (...range) => ranges.push(...range));
  return ranges;
}

function assertSame(metadata: string, ours: readonly number[], expected: readonly number[]): void {
  if (ours.length === expected.length && ours.every((value, at) => value === expected[at])) return;
  const first = ours.findIndex((value, at) => value !== expected[at]);
  throw new Error(
    `${metadata}: our scan finds ${ours.length / 2} ranges and should find ${expected.length / 2}; ` +
      `the first that differs is number ${first < 0 ? ours.length / 2 : first >> 1}`,
  );
}

export async function duel(settings: DuelSettings, { name, ...given }: Duel): Promise<Row> {
  const { addon, rounds, empty, say } = settings;
  const { metadata, measures, expected, atLeastTimes, facts } = given;
  assertSame(metadata, rangesOf(addon, metadata), expected);
  const source = thinSource(addon, metadata);
  const found = scanOnce(addon, source);
  const sides = { ours: [] as number[], peer: [] as number[] };
  const starts: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const start = await timeThinDelta(empty);
    starts.push(start);
    const contenders = {
      ours: () => settled(() => scanOnce(addon, source).ms),
      peer: async () => (await timeThinDelta(metadata)) - start,
    };
    for (const side of orderOf(['ours', 'peer'] as const, round)) {
      sides[side].push(await contenders[side]());
    }
    const last = [sides.ours, sides.peer].map((times) => times.at(-1)?.toFixed(1));
    say(`${name} round ${round + 1}: ${last.join(' and ')} ms`);
  }
  return {
    name,
    measures,
    ours: { label: 'scan', unit: 'ms', rounds: sides.ours },
    peer: { label: 'thin_delta', unit: 'ms', rounds: sides.peer },
    target: {
      label: 'faster',
      unit: ' times',
      rounds: sides.peer.map((peer, round) => peer / (sides.ours[round] ?? Number.NaN)),
      judged: 'median',
      atLeast: atLeastTimes,
    },
    facts: {
      ...facts,
      ranges: found.ranges,
      bytes: Number(found.bytes),
      'nodes read': found.nodes,
      'start of thin_delta ms': spread(starts).median.toFixed(1),
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
  return spread(times).median;
}
