/**
 * What a pull costs the plugins of its two nodes: their memory, and the calls of other clients beside a pull that has half of
 * its free rate.
 */
import { closeSync, fsyncSync, openSync } from 'node:fs';
import { BLOCK } from '../../../src/tools/bench/measured-volumes.js';
import type { Row } from '../../../src/tools/bench/row.js';
import { run } from '../../../src/tools/bench/run.js';
import { median } from '../../../src/tools/bench/statistics.js';
import { type Settings, shuffledRounds } from '../../../src/tools/bench/suite.js';
import { targetOf } from '../targets.js';
import { EXTENTS, NodeClient } from './node-client.js';
import { type PullingNode, TwoNodes } from './two-nodes.js';
import { fill, MIB } from './two-pools.js';

/** A round is the median of so many calls of each kind, or of as many as fit into a pull, but not of fewer than the least. */
const CYCLES = { full: { most: 30, least: 10 }, tiny: { most: 2, least: 1 } } as const;
/** The memory of a warm plugin says little more after three pulls. */
const MOST_MEMORY_ROUNDS = 3;
const SIDES = ['target', 'source'] as const;
type Side = (typeof SIDES)[number];
const WORDS = { target: 'the node that pulls', source: 'the node that serves' } as const;

/** Resolves to the seconds that the data took. */
type Pull = (meanwhile?: (isOver: () => boolean) => Promise<void>) => Promise<number>;

/** Half of a volume of `bytes` is data, and each pull is whole. */
export async function nodeRows(settings: Settings, bytes: number): Promise<Row[]> {
  const nodes = await TwoNodes.start(settings);
  const memoryRounds = 1 + Math.min(settings.rounds, MOST_MEMORY_ROUNDS);
  const snapshots = await snapshotsOf(nodes.source, bytes, memoryRounds + settings.rounds);
  const pull: Pull = (meanwhile) => nodes.pull(snapshots.pop() ?? '', bytes, meanwhile);
  const { rows, bytesPerSecond } = await memoryRows(settings, nodes, pull, { bytes, rounds: memoryRounds });
  const half = Math.round(bytesPerSecond / 2);
  await nodes.source.restart({ BLOCKDELTA_TRANSFER_RATE: String(half) });
  const facts = { 'MiB/s of the pull': Math.round(half / MIB), 'MiB of data': bytes / 2 / MIB };
  rows.push(...(await clientRows(settings, nodes, pull, facts)));
  await nodes.end();
  return rows;
}

/** Snapshots of the same data of which none is a base of another: each is of a volume of its own, cloned from the first. */
async function snapshotsOf({ volumes }: PullingNode, bytes: number, count: number): Promise<string[]> {
  const filled = await volumes.create(BLOCK, bytes);
  await volumes.bringUp(filled);
  const file = openSync(filled.targetPath, 'r+');
  await fill(file, bytes / 2);
  fsyncSync(file);
  closeSync(file);
  await volumes.takeDown(filled);
  const first = await volumes.snapshot(filled);
  const snapshots: string[] = [];
  while (snapshots.length < count) {
    snapshots.push(await volumes.snapshot(await volumes.create(BLOCK, bytes, first)));
  }
  return snapshots;
}

/** By pulls at the free rate, without another client. */
async function memoryRows(
  settings: Settings,
  nodes: TwoNodes,
  pull: Pull,
  { bytes, rounds }: { bytes: number; rounds: number },
): Promise<{ rows: Row[]; bytesPerSecond: number }> {
  const rest: Record<Side, number[]> = { target: [], source: [] };
  const during: Record<Side, number[]> = { target: [], source: [] };
  const seconds: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    await run('sync', [], { check: true });
    for (const side of SIDES) {
      const { meter } = nodes[side];
      rest[side].push(meter.rssMiB());
      meter.resetPeak();
    }
    seconds.push(await pull());
    for (const side of SIDES) during[side].push(nodes[side].meter.peakMiB());
  }
  // The first pull loads code, and the collector has found its level after it.
  const bytesPerSecond = bytes / 2 / median(seconds.slice(1));
  settings.say(`a free pull has ${Math.round(bytesPerSecond / MIB)} MiB/s`);
  const rows = SIDES.map((side): Row => {
    const [ours, peer] = [during[side].slice(1), rest[side].slice(1)];
    const name = `transfer-rss-${side}` as const;
    const growth = ours.map((each, round) => each - (peer[round] ?? Number.NaN));
    return {
      name,
      measures: `highest RSS of the plugin of ${WORDS[side]} during a whole pull, beside its RSS before`,
      ours: { label: 'during', unit: 'MiB', rounds: ours },
      peer: { label: 'at rest', unit: 'MiB', rounds: peer },
      target: targetOf(name, growth),
      facts: {
        'MiB of data': bytes / 2 / MIB,
        'MiB before the first pull': Math.round(rest[side][0] ?? 0),
        'MiB during the first pull': Math.round(during[side][0] ?? 0),
      },
    };
  });
  return { rows, bytesPerSecond };
}

type Times = Record<Side, { calls: number[]; lists: number[] }>;

const noTimes = (): Times => ({ target: { calls: [], lists: [] }, source: { calls: [], lists: [] } });

const KINDS = [
  { kind: 'calls', words: 'stage, publish, unpublish and unstage of a formatted xfs volume' },
  { kind: 'lists', words: `a list and a delta of snapshots of ${EXTENTS} extents` },
] as const;

async function clientRows(settings: Settings, nodes: TwoNodes, pull: Pull, facts: Row['facts']): Promise<Row[]> {
  const clients = {
    target: await NodeClient.make(nodes.target.volumes),
    source: await NodeClient.make(nodes.source.volumes),
  };
  const { most, least } = CYCLES[settings.size];
  const timesUntil = async (isOver: () => boolean): Promise<Times> => {
    const found = noTimes();
    for (let cycle = 0; cycle < most; cycle += 1) {
      for (const side of SIDES) {
        const [calls, lists] = [await clients[side].calls(), await clients[side].lists()];
        if (isOver()) return found;
        found[side].calls.push(calls);
        found[side].lists.push(lists);
      }
    }
    return found;
  };
  const alone = { rounds: [] as Times[], measure: () => timesUntil(() => false) };
  const beside = {
    rounds: [] as Times[],
    async measure() {
      let found = noTimes();
      await pull(async (isOver) => {
        found = await timesUntil(isOver);
      });
      return found;
    },
  };
  await shuffledRounds(settings, [alone, beside], async (contender) => {
    // What came before is on the disk when the clock starts.
    await run('sync', [], { check: true });
    const found = await contender.measure();
    const count = found.source.calls.length;
    if (count < least) throw new Error(`a pull had time for ${count} calls of ${least}: give a larger --volume-size`);
    contender.rounds.push(found);
    return count;
  });
  return SIDES.flatMap((side) =>
    KINDS.map(({ kind, words }): Row => {
      const medians = (rounds: readonly Times[]): number[] => rounds.map((times) => median(times[side][kind]));
      const fewest = Math.min(...beside.rounds.map((times) => times[side][kind].length));
      return {
        name: `transfer-${kind}-${side}`,
        measures: `${words} on ${WORDS[side]}, during a pull that has half of its free rate, beside none`,
        ours: { label: 'during a pull', unit: 'ms', rounds: medians(beside.rounds) },
        peer: { label: 'no pull', unit: 'ms', rounds: medians(alone.rounds) },
        facts: { ...facts, 'calls of a round': most, 'fewest during a pull': fewest },
      };
    }),
  );
}
